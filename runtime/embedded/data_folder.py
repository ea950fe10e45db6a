"""The folder of an embedded server: one owner at a time, and swept up where an owner was killed."""

import asyncio
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from headrace.runtime.errors import UsageError
from headrace.runtime.users import ProcessUser

_LOCK_SECONDS = 3.0
_POLL_SECONDS = 0.01
_STALE_SECONDS = 60.0
_USERS_PLACE = "given"


class OwnedFolder:
    """A folder and its lock, owned from `take` to `release`; a temporary one unless `kept` is given.

    The server inherits the lock: whoever gets it knows that no server runs. `prefix` begins temporary names.
    """

    def __init__(self, kept: Path | None, prefix: str) -> None:
        self.kept = kept
        self._prefix = prefix
        self.path: Path | None = None
        self._lock: IO[str] | None = None

    @property
    def lock_fd(self) -> int:
        """The descriptor of the lock, for the server to inherit; only between `take` and `release`."""
        assert self._lock is not None
        return self._lock.fileno()

    async def take(self) -> Path:
        """Own the folder; return it. UsageError when another server does. `release` also after a failure."""
        self.path = self.kept or _new_temporary_folder(self._prefix)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _opened(self.path, create=True)
        # An owner that was killed leaves a server that is about to end: its lock is waited for.
        deadline = time.monotonic() + _LOCK_SECONDS
        while not try_lock(self._lock):
            if time.monotonic() > deadline:
                raise UsageError(f"{self.path} is in use by another server: stop it or choose another folder")
            await asyncio.sleep(_POLL_SECONDS)
        return self.path

    async def take_for(self, user: ProcessUser) -> Path:
        """Own the folder; return the part of it that `give_to_user` makes the user's. The rest stays ours."""
        folder = await self.take()
        if not user.is_another:
            return folder
        (folder / _USERS_PLACE).mkdir(mode=0o700)
        return folder / _USERS_PLACE

    def give_to_user(self, user: ProcessUser) -> None:
        """Make the user the owner of all that was written in its part of the folder.

        From then on nothing may be written there by us: the user may have put a link to something else there.
        """
        if user.is_another and self.path is not None:
            user.give(self.path / _USERS_PLACE)
            # The user passes through to its own part, and can't list or read the rest.
            self.path.chmod(0o711)

    async def release(self) -> None:
        """Give the folder up; a temporary one is deleted. Idempotent."""
        self._unlock()
        if self.path is not None and self.kept is None:
            await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)
        self.path = None

    def release_at_once(self) -> None:
        """Give the folder up without awaiting anything: for a caller that is about to end. Blocks."""
        self._unlock()
        if self.path is not None and self.kept is None:
            shutil.rmtree(self.path, ignore_errors=True)
        self.path = None

    def _unlock(self) -> None:
        if self._lock is not None:
            # Closing the file isn't enough: a forked child may hold it open.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()
            self._lock = None


def _new_temporary_folder(prefix: str) -> Path:
    """Make a temporary folder, and delete those of owners that were killed: nobody has their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError), _opened(folder) as lock:
            found = folder.stat(follow_symlinks=False)
            is_old = time.time() - found.st_mtime > _STALE_SECONDS
            # A new folder may have no lock yet, so only old ones are looked at.
            # And only this user's: in /tmp others may have folders of such a name.
            if is_old and found.st_uid == os.geteuid() and try_lock(lock):
                shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=prefix))


def _opened(folder: Path, *, create: bool = False) -> IO[str]:
    """Open the folder's lock. Where others may write, it may be a link, or a FIFO that never opens."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY)
    file = os.open(folder / "lock", flags, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileExistsError(errno.EEXIST, "it is no regular file", str(folder / "lock"))
    return os.fdopen(file, "w" if create else "r")


def try_lock(file: IO[str]) -> bool:
    """Lock a file; return whether it is this process's now. The kernel frees it however its holder ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
