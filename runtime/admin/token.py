"""Who may move a halted partition: whoever has the token. Others of this machine reach the server too."""

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


@dataclass(frozen=True, slots=True)
class AdminToken:
    """What a request that changes something has to carry; empty: nothing. `is_made_up`: to be told."""

    text: str = field(default="", repr=False)
    is_made_up: bool = False

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Why these headers don't do, and what would; empty where they do."""
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        theirs = given.strip().encode(errors="surrogateescape") if scheme.lower() == "bearer" else b""
        # In the same time whatever is given: how long it takes says nothing of the token.
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
    """For a request; none without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def take_token() -> AdminToken:
    """The environment's, which loses it: handlers inherit that. Else one made up. Raises UsageError."""
    if given := os.environ.pop(TOKEN_VARIABLE, "").strip():
        return AdminToken(checked_token(given, TOKEN_VARIABLE))
    return AdminToken(secrets.token_urlsafe(24), is_made_up=True)


def checked_token(token: str, source: str) -> str:
    """What a header can hold. Raises UsageError, which doesn't repeat it."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(
            f"{source} holds something that is no token; expected ASCII letters, digits and signs"
        )
    return token


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
