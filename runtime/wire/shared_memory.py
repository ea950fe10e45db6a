"""Memory that processes share by a file descriptor, sealed: nobody who has that can take the memory away."""

import contextlib
import fcntl
import mmap
import os

# Where another process cuts short what this one has mapped, reading it is SIGBUS.
_SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
# F_SEAL_FUTURE_WRITE: fcntl has no name for it before Python 3.13.
_FUTURE_WRITE = 0x10


def create(name: str, words: int) -> int:
    """Return a descriptor of that many words of 8 bytes, all 0, and never of fewer or more.

    It is inherited by no process unless passed on.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8 * words)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SIZE_SEALS)
    return fd


def map_writable(fd: int) -> mmap.mmap:
    """Map all of it, to read and write."""
    return mmap.mmap(fd, 0)


def map_readable(fd: int) -> mmap.mmap:
    """Map all of it, to read."""
    return mmap.mmap(fd, 0, prot=mmap.PROT_READ)


def keep_to_writer(fd: int) -> None:
    """Have nobody but those who have mapped it writable by now write it; by its descriptor it can be read."""
    # Linux has it from 5.1 on: before that the memory works, and anybody can write it.
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _FUTURE_WRITE)
    # And nobody may add seals: one against writing would stop the writer.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
