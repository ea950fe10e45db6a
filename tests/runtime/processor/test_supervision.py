"""`--replicas`: which ends of a replica end all of them, and that none outlives its supervisor."""

import os
import signal
from pathlib import Path

import pytest
from broker import Broker
from command import run
from processes import children_of, is_running
from replica import Replica, lines, replica, wait_until, write_function

LOADS = """
    if exists("broken"):
        raise OSError("no database")
    write(os.getpid(), "loaded")

    def handler(context, event):
        write(event.offset)
"""
NOWHERE = "127.0.0.1:1"


def replicas_of(running: Replica) -> list[int]:
    return [found["pid"] for found in running.status()["replicas"]]


@pytest.mark.full
def test_a_replica_that_cannot_load_ends_no_others_once_one_has_been_up(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", LOADS, broker.bootstrap, [topic], workers=1, sessionTimeout="2s")
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        victim, healthy = replicas_of(running)
        (folder / "broken").touch()
        os.kill(victim, signal.SIGKILL)
        running.logged("replica-0 ended with exit code 2; started again in 1 s")
        running.logged("replica-0 ended with exit code 2; started again in 2 s")
        assert is_running(healthy)
        (folder / "broken").unlink()
        running.wait_ready()
        assert replicas_of(running)[1] == healthy
        assert running.stop() == 0


@pytest.mark.full
def test_replicas_that_cannot_load_end_the_run_while_none_has_been_up(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", LOADS, NOWHERE, ["t"])
    (folder / "broken").touch()
    result = run("run", str(folder), "--admin-port", "0", "--replicas", "2")
    assert result.returncode == 2
    assert "no database" in result.stderr


@pytest.mark.full_but("holds the interpreter")
@pytest.mark.parametrize(
    "how", ["time.sleep", "ctypes.PyDLL(None).sleep"], ids=["waits", "holds the interpreter"]
)
def test_a_replica_whose_event_loop_stands_still_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import ctypes, os, signal, sys, time\n"
        "if 'run' in sys.argv or 'headrace' in ' '.join(sys.orig_argv):\n"
        "    from headrace.runtime.processor import replica_heartbeat\n"
        "    replica_heartbeat._SILENT_TURNS = 3\n"
        f"signal.signal(signal.SIGUSR1, lambda *_: {how}(3600))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = write_function(tmp_path / "f", LOADS, NOWHERE, ["t"], workers=1)
    with replica(folder, "--replicas", "2") as running:
        wait_until(lambda: len(lines(folder, "loaded")) == 2, about=running)
        stopped, held = children_of(running.process.pid)
        os.kill(stopped, signal.SIGSTOP)  # as a debugger does
        os.kill(held, signal.SIGUSR1)
        running.logged("is killed: its event loop has not turned")
        wait_until(lambda: len(lines(folder, "loaded")) == 3, about=running)
        assert not is_running(held)
        assert stopped in children_of(running.process.pid)
        os.kill(stopped, signal.SIGCONT)
        assert running.stop() == 0


@pytest.mark.full
def test_a_replica_whose_event_loop_is_held_ends_with_its_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "held"
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, signal, time\n"
        f"hold = lambda *_: (pathlib.Path({str(held)!r}).touch(), time.sleep(3600))\n"
        "signal.signal(signal.SIGUSR1, hold)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = write_function(tmp_path / "f", LOADS, NOWHERE, ["t"], workers=1)
    with replica(folder, "--replicas", "2") as running:
        wait_until(lambda: len(lines(folder, "loaded")) == 2, about=running)
        pids = children_of(running.process.pid)
        below = [worker for pid in pids for worker in children_of(pid)]
        os.kill(pids[0], signal.SIGUSR1)
        wait_until(held.exists, about=running)
        running.kill()
        wait_until(lambda: not any(map(is_running, pids + below)), 60, about=running)
        assert "its event loop does not turn" in running.log
