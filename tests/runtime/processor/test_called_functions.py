"""Functions of one `headrace run` that call each other."""

import json
import textwrap
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from replica import Replica, replica

from headrace.runtime.embedded.ports import free_port

CALLS = """
    import nuclio_sdk


    async def handler(context, event):
        how = event.fields
        asked = nuclio_sdk.Event(body=event.body, path="/from/caller", method="POST")
        timeout = float(how["timeout"]) if "timeout" in how else None
        try:
            if how.get("way") == "async":
                answer = await context.platform.call_function_async(how["name"], asked, timeout=timeout)
            else:
                answer = context.platform.call_function(how["name"], asked, timeout=timeout)
        except OSError as error:
            return {"raised": type(error).__name__, "said": str(error)}
        return {"status": answer.status_code, "body": answer.body}
"""
ANSWERS = """
    def handler(context, event):
        return context.Response(body={"path": event.path, "got": event.body.decode()}, status_code=202)
"""


def write_http(folder: Path, name: str, handler: str, port: int, **attributes: Any) -> Path:
    """A function of this name, in a folder of this name, with one worker."""
    path = folder / name
    path.mkdir()
    (path / "code_of_it.py").write_text(textwrap.dedent(handler))
    trigger = {"kind": "http", "attributes": {"port": port, **attributes}}
    spec = {"handler": "code_of_it:handler", "triggers": {"web": trigger}}
    (path / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": name}, "spec": spec}))
    return path


def ask(running: Replica, function: str, query: str, body: bytes = b"hello") -> Any:
    """What the caller says of its call."""
    (row,) = (trigger for trigger in running.triggers() if trigger["function"] == function)
    with urllib.request.urlopen(f"{row['url']}/?{query}", data=body, timeout=120) as answer:
        return json.loads(answer.read())


def test_a_function_calls_another_one_by_its_name(tmp_path: Path) -> None:
    caller = write_http(tmp_path, "caller", CALLS, free_port())
    called = write_http(tmp_path, "called", ANSWERS, free_port(), host="0.0.0.0")
    free = write_http(tmp_path, "free", ANSWERS, 0)
    answered = {"status": 202, "body": {"path": "/from/caller", "got": "hello"}}
    with replica(caller, str(called), str(free)) as running:
        running.wait_ready()
        assert ask(running, "caller", "name=called") == answered
        assert ask(running, "caller", "name=called&way=async") == answered

        nobody = ask(running, "caller", "name=nobody.invalid")
        assert nobody["raised"] == "ConnectionError"
        assert nobody["said"].endswith("have an http trigger: called, caller, free")
        assert "give its http trigger a port" in ask(running, "caller", "name=free")["said"]

        itself = ask(running, "caller", "name=caller&timeout=0.5")
        assert itself["raised"] == "TimeoutError"
        assert running.stop() == 0


@pytest.mark.full
def test_replicas_know_where_functions_are(tmp_path: Path) -> None:
    caller = write_http(tmp_path, "caller", CALLS, free_port())
    called = write_http(tmp_path, "called", ANSWERS, free_port())
    with replica(caller, str(called), "--replicas", "2") as running:
        running.wait_ready()
        port = yaml.safe_load((caller / "function.yaml").read_text())["spec"]["triggers"]["web"]
        url = f"http://127.0.0.1:{port['attributes']['port']}/?name=called"
        for _ in range(10):  # the kernel chooses the replica
            with urllib.request.urlopen(url, data=b"x", timeout=120) as answer:
                assert json.loads(answer.read())["body"]["got"] == "x"
        assert running.stop() == 0
