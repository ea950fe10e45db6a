"""A real PostgreSQL server of the system's packages, for tests. It refuses to run as root, so it doesn't."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headrace.runtime.embedded.ports import free_port

_USERS = ("postgres", "nobody")
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Databases:
    """Of a server that runs."""

    port: int

    def url(self, database: str) -> str:
        """As SQLAlchemy wants it."""
        return f"postgresql://headrace@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """The address of an empty one. Tests share a server, so its name is nobody else's."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


class PostgreSQL:
    """One server, on one port for as long as it lives: it may be stopped, and started again."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._identity = _identity()
        if self._identity:
            os.chown(folder, self._identity["user"], self._identity["group"])
        self.port = free_port()
        options = ["--username=headrace", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", f"--pgdata={self._data}", *options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def databases(self) -> Databases:
        """While it runs."""
        return Databases(self.port)

    def start(self) -> None:
        """Returns once it answers."""
        # A kill loses nothing without fsync, and the next start would sync each file of each database.
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._identity
        )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, "PostgreSQL ended"
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        """At once: its clients are cut off, their transactions are gone. What they have committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.databases.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._identity)
        assert done.returncode == 0, done.stderr


def programs() -> Path | None:
    """Where the newest server's are: Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("postgres")
    if not found and on_path:
        found = [Path(on_path).resolve()]
    return found[-1].parent if found else None


@contextmanager
def postgresql(where: Path) -> Iterator[PostgreSQL]:
    """Running, in a folder that its user can reach."""
    with tempfile.TemporaryDirectory(prefix="headrace-postgresql-") as folder:
        server = PostgreSQL(where, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The address of an empty one, sqlite or postgresql. Fails where there is no server."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/empty.sqlite"
        return
    where = programs()
    assert where is not None, "there is no PostgreSQL here: apt-get install postgresql"
    with postgresql(where) as server:
        yield server.databases.create()


def _identity() -> Mapping[str, Any]:
    """Whom a test that runs as root lets it run as."""
    if os.getuid() != 0:
        return {}
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = next(users[name] for name in _USERS if name in users)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
