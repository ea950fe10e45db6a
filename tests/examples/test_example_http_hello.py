"""examples/http_hello, as its README says it, on another port."""

import urllib.request
from pathlib import Path

from command import run
from replica import Replica
from root import ROOT

FOLDER = ROOT / "examples/http_hello"
PORT = ("--set", "triggers.default-http.kind=http", "--set", "triggers.default-http.attributes.port=0")


def test_it_greets_whoever_asks(tmp_path: Path) -> None:
    running = Replica(FOLDER, tmp_path / "replica.txt", *PORT)
    try:
        running.wait_ready()
        with urllib.request.urlopen(running.trigger()["url"], data=b"Ada", timeout=60) as answer:
            assert (answer.status, answer.read()) == (200, b"Hello, Ada!")
        invoke = ("invoke", "http-hello", "--path", "/?loud=1", "--body", "Ada", "--admin", running.url)
        told = run(*invoke)
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith("200 OK\n")
        assert "X-Worker = 0" in told.stdout
        assert told.stdout.endswith("> Response body:\nHELLO, ADA!\n")
        assert running.stop() == 0
    finally:
        running.kill()


def test_without_triggers_it_gets_the_one_that_the_readme_names() -> None:
    told = run("validate", str(FOLDER))
    assert told.returncode == 0, told.stderr
    assert "gets one of kind http" in told.stdout + told.stderr
    text = (FOLDER / "README.md").read_text()
    assert all(name in text for name in ("hello.py", "function.yaml", "curl", "headrace invoke http-hello"))
