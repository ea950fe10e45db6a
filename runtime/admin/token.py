"""Token of the admin server: whoever has it may move a halted partition, and see what records hold.

Other users of this machine reach the server too. A token that is made up is kept in a file of its user's own,
where that user's commands find it by themselves.
"""

import fcntl
import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from urllib.parse import urlsplit

from headrace.runtime.errors import UsageError
from headrace.runtime.users import is_served_by_us

TOKEN_VARIABLE = "HEADRACE_ADMIN_TOKEN"  # noqa: S105  # a name, no secret
_MAX_BYTES = 4096
_TRIES, _MOMENT_SECONDS = 5, 0.02
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a link or a FIFO of somebody else's harms nobody


@dataclass(frozen=True, slots=True)
class AdminToken:
    """Token that a request which changes something has to carry; empty: no request needs one.

    `is_made_up`: no user gave it, so the run has to say where it is.
    """

    text: str = field(default="", repr=False)
    is_made_up: bool = False

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Return why a request with these headers is refused, and what to do; "" where it isn't."""
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        theirs = given.strip().encode(errors="surrogateescape") if scheme.lower() == "bearer" else b""
        # A comparison in constant time: how long it takes says nothing about the token.
        if not self.text or hmac.compare_digest(theirs, self.text.encode()):
            return ""
        what = "another token than this" if given else "no token"
        return (
            f"the request has {what}: give the running function's, from its {TOKEN_VARIABLE} or what its log "
            f"names, in {TOKEN_VARIABLE} or --admin-token (over HTTP as Authorization: Bearer TOKEN); "
            "commands of the user that runs it find it by themselves"
        )


NO_TOKEN = AdminToken()


def token_header(token: str) -> dict[str, str]:
    """Return the headers that carry a token; none without one."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def take_token() -> AdminToken:
    """Take the token out of the environment, which handlers inherit, or make one up. Raises UsageError."""
    if given := os.environ.pop(TOKEN_VARIABLE, "").strip():
        return AdminToken(checked_token(given, TOKEN_VARIABLE))
    return AdminToken(secrets.token_urlsafe(24), is_made_up=True)


def checked_token(token: str, source: str) -> str:
    """Return the token if a header can hold it. Raises UsageError, which doesn't repeat it."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(
            f"{source} holds something that is no token; expected ASCII letters, digits and signs"
        )
    return token


@contextmanager
def kept_for_commands(token: str, url: str) -> Iterator[Path | None]:
    """Keep the token in a file while the context lasts; yield its path, None where it can't be written.

    The file is locked meanwhile: one that a killed run has left is free, and deleted by the next run or
    reader.
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
        path.unlink(missing_ok=True)  # while it is locked: nobody takes it for a file that is left over
        os.close(file)


def find_token(url: str) -> str:
    """Return the token that a run of this user's keeps for the admin server at `url`, on loopback.

    Empty where there is none, where the run has ended, or where another user's process may answer there: it
    must not get the token.
    """
    try:
        path = _path(url)
        file = os.open(path, os.O_RDONLY | _FLAGS)
    except (OSError, RuntimeError):
        return ""
    try:
        # Another user may have put a file there, and a killed run's token is nobody's.
        if not _is_private(file) or _has_ended(path):
            return ""
        if not is_served_by_us(urlsplit(url).hostname or "", _port(url)):
            return ""
        return os.read(file, _MAX_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(file)


def _path(url: str) -> Path:
    """Return the file for a URL. It is named by the port: 127.0.0.1 and localhost are one."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser().absolute()
    return base / "headrace" / f"admin-{_port(url)}"


def _port(url: str) -> int:
    return urlsplit(url).port or 80


def _taken(path: Path) -> int:
    """Open an empty file and lock it. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in path.parent.glob("admin-*"):  # files that killed runs have left
        _has_ended(other)
    file = _locked_soon(path)
    if _is_private(file):
        return file
    os.close(file)
    raise PermissionError(f"{path} belongs to somebody else, or others may read it")


def _has_ended(path: Path) -> bool:
    """Whether the file's run has ended, which would hold the lock; the file is deleted then."""
    try:
        file = _locked(path)
    except BlockingIOError:
        return False
    except OSError:  # somebody else is about to delete it
        return True
    with suppress(OSError):
        # While it is locked: a run that has just opened it sees that it is gone (`_locked`).
        path.unlink()
    os.close(file)
    return True


def _locked_soon(path: Path) -> int:
    """Lock the file, in several tries: whoever checks whether its run has ended locks it for a moment.

    Raises OSError.
    """
    for _ in range(_TRIES):
        with suppress(BlockingIOError, FileNotFoundError):
            return _locked(path, os.O_CREAT)
        sleep(_MOMENT_SECONDS)
    return _locked(path, os.O_CREAT)


def _locked(path: Path, create: int = 0) -> int:
    """Open the file and lock it. Raises OSError: it is another run's, say."""
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
