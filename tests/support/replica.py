"""`headrace run` as a person runs it: a process of its own, watched through its admin server and its log."""

import contextlib
import json
import os
import re
import signal
import subprocess
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import yaml
from forked import PROGRAM, Forked, is_to_fork
from worker_bench import PRELUDE

from headrace.runtime.spark.link import SparkLink

T = TypeVar("T")

# The size of each record counts, so the processor decodes it.
DECODED = {"fetchMax": 1 << 30}
QUICK_GROUP = {"sessionTimeout": "6s", "heartbeatInterval": "200ms"}


DEFAULTS: dict[str, object] = {}
"""Attributes of every function. The fixture `either_path` changes them."""


def write_function(
    folder: Path,
    handler: str,
    brokers: str,
    topics: list[str],
    workers: int = 2,
    **attributes: object,
) -> Path:
    """A function.yaml and its handler, which has PRELUDE's names."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
    kafka = {
        "topics": topics,
        # Several, as clients take them. What has a user in it is a mistake as it stands.
        "brokers": [brokers] if "@" in brokers else brokers.split(","),
        "consumerGroup": f"group-{topics[0]}",
        **({} if attributes.get("groupProtocol") == "consumer" else QUICK_GROUP),
        **DEFAULTS,
    }
    trigger = {"kind": "kafka-cluster", "numWorkers": workers, "attributes": kafka | attributes}
    spec = {"handler": "function_code:handler", "runtime": "python", "triggers": {"records": trigger}}
    function = {
        "apiVersion": "nuclio.io/v1",
        "kind": "NuclioFunction",
        "metadata": {"name": "f"},
        "spec": spec,
    }
    (folder / "function.yaml").write_text(yaml.safe_dump(function))
    return folder


def set_trigger(folder: Path, **fields: object) -> Path:
    """Change fields of the function's trigger that stand beside its attributes."""
    path = folder / "function.yaml"
    function = yaml.safe_load(path.read_text())
    function["spec"]["triggers"]["records"] |= fields
    path.write_text(yaml.safe_dump(function))
    return folder


def set_spec(folder: Path, **fields: object) -> Path:
    """Change fields of the function's spec."""
    path = folder / "function.yaml"
    function = yaml.safe_load(path.read_text())
    function["spec"] |= fields
    path.write_text(yaml.safe_dump(function))
    return folder


class Replica:
    """Killed when the test ends, whatever happens in it."""

    def __init__(
        self,
        function: Path,
        log: Path,
        *arguments: str,
        program: Sequence[str] = PROGRAM,
        spark: SparkLink | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.log_path = log
        command = ["run", str(function), "--admin-port", "0", *arguments]
        env = environment(**(variables or {}), **(spark.environment() if spark else {}))
        files = [spark.token_fd] if spark else []
        self.process: Forked | subprocess.Popen[bytes]
        with log.open("ab") as output:
            if is_to_fork(program, env):
                self.process = Forked(command, output, output, env, start_new_session=True, pass_fds=files)
            else:
                self.process = subprocess.Popen(
                    [*program, *command],
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env=env,
                    pass_fds=files,
                )

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def log_times(self, text: str) -> list[float]:
        """When each log line with `text` was written, seconds since the epoch, to the millisecond."""
        clocks = re.findall(rf"^(\d\d:\d\d:\d\d\.\d+) .*{re.escape(text)}", self.log, re.MULTILINE)
        today = datetime.now().date()  # noqa: DTZ005  # the log's own zone
        times = [datetime.strptime(clock, "%H:%M:%S.%f").time() for clock in clocks]  # noqa: DTZ007
        return [datetime.combine(today, time).timestamp() for time in times]

    def logged(self, text: str, after: float = 0, seconds: float = 300) -> float:
        """When the first log line with `text` was written, not before `after`. Waits for the line."""
        wait_until(lambda: any(t >= after for t in self.log_times(text)), seconds, about=self)
        return min(t for t in self.log_times(text) if t >= after)

    @property
    def url(self) -> str:
        wait_until(lambda: "admin server at" in self.log or self.process.poll() is not None, about=self)
        found = re.search(r"admin server at (\S+)", self.log)
        assert found, self.log
        return found[1]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except OSError:
            assert self.process.poll() is None, self.log  # what it said, not that nobody listens any more
            raise

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.get("/api/status")[1])
        return answer

    def triggers(self) -> list[dict[str, Any]]:
        return [trigger for replica in self.status()["replicas"] for trigger in replica["triggers"]]

    def trigger(self) -> dict[str, Any]:
        return self.triggers()[0]

    def wait_ready(self) -> "Replica":
        wait_until(lambda: self.get("/ready")[0] == 200, about=self)
        return self

    def committed(self) -> dict[int, int]:
        return {row["partition"]: row["committed"] for row in self.trigger()["partitions"]}

    def worker_pids(self) -> list[int]:
        """Of those that have a process now."""
        pids = (worker["pid"] for trigger in self.triggers() for worker in trigger["workers"])
        return [pid for pid in pids if pid is not None]

    def stop(self, seconds: float = 120) -> int:
        # Before that it ends as any Python does, with a code of its own.
        wait_until(lambda: self._heeds(signal.SIGTERM) or self.process.poll() is not None, about=self)
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def _heeds(self, signum: signal.Signals) -> bool:
        """As the kernel has it."""
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (signum - 1) & 1)
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def replica(
    function: Path,
    *arguments: str,
    name: str = "",
    program: Sequence[str] = PROGRAM,
    log: Path | None = None,
    spark: SparkLink | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Replica]:
    """A running one. Its log is in the function's folder, where there is one.

    `spark` is a server that it is told of as by a supervisor; `variables` are added to the environment.
    """
    path = log or function / f"replica{name}.txt"
    running = Replica(function, path, *arguments, program=program, spark=spark, variables=variables)
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def frozen(running: Replica) -> Iterator[None]:
    """Its processor stands still; its workers go on."""
    running.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        running.process.send_signal(signal.SIGCONT)


def wait_until(condition: Callable[[], T | None], seconds: float = 300, about: Replica | None = None) -> T:
    """Poll another process, and return what holds in the end; on failure show what it said."""
    began = time.monotonic()
    while not (found := condition()):
        if (waited := time.monotonic() - began) > seconds:
            raise TimeoutError(about.log if about else "what was waited for did not come")
        time.sleep(min(0.02 + waited / 20, 0.2))  # to ask costs both of them time
    return found


def lines(folder: Path, name: str = "log") -> list[str]:
    """What handlers have written so far, without a line that is only partly there."""
    path = folder / name
    written = path.read_text() if path.exists() else ""
    return written[: written.rfind("\n") + 1].splitlines()


def environment(**changes: str) -> dict[str, str]:
    """This process's, changed."""
    return {**os.environ, **changes}
