"""One server of each kind for a whole run, however many processes test. The first who asks has it started.

All of them belong to one process, `server_process.py`. Who begins the run starts it (`running`) and tells
the others where it is by a variable of the environment; it ends with whoever started it.
"""

import os
import pickle
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker import Broker
from certificates import Pair

ADDRESS = "HEADRACE_TEST_SERVERS"
USERS = {"ada": "s3cret-word", "ben": "pass,word", "cleo": "secret", "dora": "secret", "u": "p"}
"""Of the guarded broker: names and passwords."""
RULED_USERS = ("cleo", "dora")
"""Who may do what a test allows; all others may do all. Dora is of the one test that is about who may
write nowhere."""


@dataclass(frozen=True, slots=True)
class GuardedBroker:
    """One broker, and how it is reached: plainly, by SASL (tokens too), TLS, both, or a certificate."""

    bootstrap: str
    sasl_bootstrap: str
    tls_bootstrap: str
    sasl_tls_bootstrap: str
    mutual_tls_bootstrap: str
    ca_pem: str
    client: Pair
    """Of ada."""

    @property
    def plain(self) -> Broker:
        """As a broker without guards."""
        return Broker(self.bootstrap, "embedded")


@dataclass(frozen=True, slots=True)
class SharedV3io:
    """Where its web API is, and what it has logged, which is nothing."""

    url: str
    log: Path


@dataclass(frozen=True, slots=True)
class Failed:
    """In place of a server that could not be started."""

    traceback: str


def shared(kind: str) -> Any:
    """What `server_process.KINDS` has by that name. RuntimeError where it could not be started."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(os.environ[ADDRESS])
        link.sendall(kind.encode() + b"\n")
        with link.makefile("rb") as answer:
            found = pickle.load(answer)
    if isinstance(found, Failed):
        raise RuntimeError(f"no {kind} for this run:\n{found.traceback}")  # noqa: TRY004  # no type is wrong
    return found


@contextmanager
def running() -> Iterator[None]:
    """They may be asked for by this process and by those that it starts.

    RuntimeError in the end where one of them did what it should not.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-servers-") as folder:
        address = f"{folder}/socket"
        os.environ[ADDRESS] = address
        command = [sys.executable, "-P", "-m", "server_process", address]
        path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()  # it listens
            try:
                yield
            finally:
                process.stdin.close()  # it ends
                del os.environ[ADDRESS]
        if process.returncode:
            raise RuntimeError("a server of this run ended with what stands above")
