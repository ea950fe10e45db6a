"""Memory that processes share by a file descriptor. Nobody who has that can take the memory away."""

import contextlib
import fcntl
import mmap
import os

# Where a process has mapped what another cuts short, reading it is SIGBUS.
_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_FUTURE_WRITE = 0x10  # fcntl has no name for it before Python 3.13


def create(name: str, words: int) -> int:
    """A descriptor of so many words of 0, and never of fewer or more. It is inherited by no process."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8 * words)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SIZE)
    return fd


def map_writable(fd: int) -> mmap.mmap:
    """All of it."""
    return mmap.mmap(fd, 0)


def map_readable(fd: int) -> mmap.mmap:
    """All of it."""
    return mmap.mmap(fd, 0, prot=mmap.PROT_READ)


def keep_to_writer(fd: int) -> None:
    """From now on only what has mapped it writable can write it; whoever has the descriptor can read it."""
    with contextlib.suppress(OSError):  # before Linux 5.1
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _FUTURE_WRITE)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
