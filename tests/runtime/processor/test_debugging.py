"""`headrace run --debug`, in a terminal of its own: a breakpoint in a handler."""

import os
import pty
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from broker import Broker
from command import one_line, run
from forked import PROGRAM
from kafka_records import produce
from replica import Replica, set_spec, wait_until, write_function

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.processor.run import for_debugging

STOPS = """
    def handler(context, event):
        found = event.offset
        breakpoint()
        print(f"went on with {found}")
"""


class Terminal(Replica):
    """A run that has one; what is typed there goes in by `type`."""

    def __init__(self, function: Path) -> None:
        self.log_path = function / "terminal.txt"
        self.log_path.touch()
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execv(PROGRAM[0], [*PROGRAM, "run", str(function), "--debug", "--admin-port", "0"])
        self.process = self  # type: ignore[assignment]  # all that is asked of one is `poll`
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def poll(self) -> int | None:
        return None

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def _read(self) -> None:
        with self.log_path.open("ab") as log, suppress(OSError):  # nobody has its other end any more
            while data := os.read(self.fd, 65536):
                log.write(data)
                log.flush()


@contextmanager
def terminal(function: Path) -> Iterator[Terminal]:
    running = Terminal(function)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)
        running.reader.join()
        os.close(running.fd)


def test_a_breakpoint_in_a_handler_has_the_terminal_and_no_timeout_ends_it(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", STOPS, broker.bootstrap, [topic], workers=3)
    set_spec(folder, eventTimeout="300ms")
    with terminal(folder) as running:
        running.wait_ready()
        (pid,) = running.worker_pids()
        produce(broker, topic, 1)
        wait_until(lambda: "(Pdb) " in running.log, about=running)
        worker = running.trigger()["workers"][0]
        assert worker["inFlight"] == 1
        wait_until(lambda: running.trigger()["workers"][0]["runningRecords"][0]["runningSeconds"] > 2)
        running.type("p 1000 + found\n")
        wait_until(lambda: re.search(r"^1000\r?$", running.log, re.MULTILINE), about=running)
        running.type("c\n")
        wait_until(lambda: "went on with 0" in running.log, about=running)
        wait_until(lambda: 1 in running.committed().values(), about=running)
        assert running.worker_pids() == [pid]
        running.type("\x03")  # Ctrl-C
        _, status = os.waitpid(running.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, running.log


def test_a_group_waits_for_who_is_debugged(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", STOPS, "127.0.0.1:1", ["orders"], workers=3)
    function = for_debugging(load_function(set_spec(folder, eventTimeout="1s")))
    (trigger,) = function.triggers
    assert (trigger.num_workers, function.event_timeout_seconds) == (1, None)
    settings = trigger.settings
    assert settings.rebalance_timeout_seconds > settings.max_wait_handler_during_rebalance_seconds >= 86_400


@pytest.mark.parametrize("other", [["--replicas", "2"], ["--worker-user", "nobody"]])
def test_what_has_no_terminal_is_refused(tmp_path: Path, other: list[str]) -> None:
    folder = write_function(tmp_path / "f", STOPS, "127.0.0.1:1", ["orders"])
    line = one_line(run("run", str(folder), "--debug", *other), 2)
    assert line == f"headrace: --debug gives one process this terminal: leave out {other[0]}"
