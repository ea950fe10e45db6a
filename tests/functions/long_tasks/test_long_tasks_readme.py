"""functions/long_tasks/README.md: its commands, in its order, and its script."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from long_task_scene import Scene
from pages import ROOT, Block, parts
from replica import wait_until

README = ROOT / "functions/long_tasks/README.md"
NOT_HERE = ("pip install", "headrace kafka up")
POOL = "python -m headrace.functions.long_tasks --workers 2"


def blocks(language: str) -> list[str]:
    found = parts(README.read_text())
    return [block.text for block in found if isinstance(block, Block) and block.language == language]


def for_here(scene: Scene, command: str) -> str:
    """Return the command for the test's broker and its topics."""
    ours = {"127.0.0.1:9092": scene.broker.bootstrap, "=requests": f"={scene.requests}"}
    ours |= {"=acks": f"={scene.acks}", "=workers": f"={scene.group}", "python": sys.executable}
    for theirs, its in ours.items():
        command = command.replace(theirs, its)
    return command


@contextmanager
def running(command: str, log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(["bash", "-c", f"exec {command}"], stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


@pytest.mark.full
def test_its_commands_answer_what_its_client_asks(scene: Scene, tmp_path: Path) -> None:
    lines = [line for text in blocks("sh") for line in text.splitlines() if not line.startswith(NOT_HERE)]
    exports = [for_here(scene, line.strip()) for line in lines if line.strip().startswith("export")]
    (pool, client) = (line.strip() for line in lines if line.strip().startswith("python"))
    assert pool == POOL
    log = tmp_path / "pool.txt"
    prepared = f"{'; '.join(exports)}; exec {for_here(scene, pool)} -- --admin-port 0"
    with running(f"bash -c '{prepared}'", log):
        said = subprocess.run(
            ["bash", "-c", f"{'; '.join(exports)}; {for_here(scene, client)}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.stdout == "20 processed, 0 not processed, 0 missing\n", f"{said.stderr}{log.read_text()}"
        assert said.returncode == 0


@pytest.mark.full
def test_its_script_runs_the_task_that_it_has(scene: Scene, tmp_path: Path) -> None:
    (script,) = blocks("python")
    path = tmp_path / "runner.py"
    path.write_text(script.replace('execute(dummy="dummy")', 'execute("--admin-port", "0", dummy="dummy")'))
    (sequence,) = scene.send(1000)
    log = tmp_path / "runner.txt"
    assignments = " ".join(f"{name}={value}" for name, value in scene.variables().items())
    with running(f"env {assignments} {sys.executable} {path}", log):
        wait_until(scene.responses)
    assert f"has done {sequence}, dummy" in log.read_text()
