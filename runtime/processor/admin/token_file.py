"""The admin server's token in a file of its user's own, where that user's commands find it by themselves."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from urllib.parse import urlsplit

from headrace.runtime.users import is_served_by_us

_MAX_BYTES = 4096
_TRIES, _MOMENT_SECONDS = 5, 0.02
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a link or a FIFO of somebody else's harms nobody


@contextmanager
def kept_for_commands(token: str, url: str) -> Iterator[Path | None]:
    """The file for as long as this lasts; None where it can't be written.

    It is locked meanwhile: what a run that was killed has left is deleted by the next one, or by who looks.
    """
    try:
        path = _path(url)
        file = _taken(path)
    except (OSError, RuntimeError):  # there is no home, or it is read-only
        yield None
        return
    try:
        os.write(file, token.encode())
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def find_token(url: str) -> str:
    """What a run of this user's keeps for the admin server at `url`, on loopback; empty where there is none.

    None is told where the run has ended, or another user's process may answer there instead.
    """
    try:
        path = _path(url)
        file = os.open(path, os.O_RDONLY | _FLAGS)
    except (OSError, RuntimeError):
        return ""
    try:
        if not _is_private(file) or _has_ended(path):
            return ""
        if not is_served_by_us(urlsplit(url).hostname or "", _port(url)):
            return ""
        return os.read(file, _MAX_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(file)


def _path(url: str) -> Path:
    """By port: 127.0.0.1 and localhost are one."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser().absolute()
    return base / "headrace" / f"admin-{_port(url)}"


def _port(url: str) -> int:
    return urlsplit(url).port or 80


def _taken(path: Path) -> int:
    """An empty file, locked. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in path.parent.glob("admin-*"):
        _has_ended(other)
    file = _locked_soon(path)
    if _is_private(file):
        return file
    os.close(file)
    raise PermissionError(f"{path} belongs to somebody else, or others may read it")


def _has_ended(path: Path) -> bool:
    """Whether its run has, which would hold its lock; then it is deleted."""
    try:
        file = _locked(path)
    except BlockingIOError:
        return False
    except OSError:  # somebody else is about to delete it
        return True
    with suppress(OSError):
        path.unlink()
    os.close(file)
    return True


def _locked_soon(path: Path) -> int:
    """Whoever looks whether its run has ended has it locked for a moment. Raises OSError."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError, FileNotFoundError):
            return _locked(path, os.O_CREAT)
        sleep(_MOMENT_SECONDS)
    return _locked(path, os.O_CREAT)


def _locked(path: Path, create: int = 0) -> int:
    """Raises OSError: it is another run's, say."""
    file = os.open(path, os.O_RDWR | create | _FLAGS, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_ino != path.stat(follow_symlinks=False).st_ino:
            raise FileNotFoundError(path)  # another run has swept it up meanwhile
    except OSError:
        os.close(file)
        raise
    return file


def _is_private(file: int) -> bool:
    found = os.fstat(file)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
