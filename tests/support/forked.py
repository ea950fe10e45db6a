"""`headrace`, forked of a process that has imported it: the same program, without half a second of imports.

Half of what a run of all tests computes was that. The interpreter, the code and all that it starts are those
of `python -m headrace`. Who is about the start itself, its command line or the environment of its interpreter
starts it by a `program`.
"""

import atexit
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

PROGRAM = (sys.executable, "-P", "-m", "headrace")
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Those that a process ignores from its start where its parent does."""
_spent = 0.0


def spent_seconds() -> float:
    """Of a processor, by all that has ended."""
    return _spent


@functools.cache
def _server() -> socket.socket:
    """Of this process; it ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fork_server", str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def is_to_fork(program: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether that is the same: not where another interpreter is asked for, or another one's settings."""
    return program is PROGRAM and _of_interpreters(env) == _SETTINGS


def _of_interpreters(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "LD_"))}


_SETTINGS = _of_interpreters(os.environ)


class Forked:
    """As subprocess.Popen."""

    def __init__(
        self,
        arguments: Sequence[str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        env: Mapping[str, str],
        *,
        start_new_session: bool,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.returncode: int | None = None
        self._told, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wanted = {
            "arguments": arguments,
            "environment": dict(env),
            "folder": str(Path.cwd()),
            "new_session": start_new_session,
            "files": pass_fds,
            "ignored": [int(it) for it in SIGNALS if signal.getsignal(it) == signal.SIG_IGN],
        }
        sys.audit("subprocess.Popen", "headrace", ["headrace", *arguments], None, None)
        with its:
            files = [its.fileno(), stdout.fileno(), stderr.fileno(), *pass_fds]
            socket.send_fds(_server(), [json.dumps(wanted).encode()], files)
        self.pid = int(self._told.recv(100))
        self.args = ["headrace", *arguments]

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        if (code := self._look(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _look(self, timeout: float | None) -> int | None:
        """The exit code, once it has ended."""
        global _spent  # noqa: PLW0603  # as of the operating system
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if selector.select(timeout):
                    with self._told:
                        self.returncode, used = json.loads(self._told.recv(100))
                    _spent += used
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end in between
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)
