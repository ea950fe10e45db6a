"""Temporary folders for writes: removed at the end, or by a later writer if theirs was killed."""

import fcntl
import functools
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".writing-"  # readers of Parquet folders skip names that begin with a dot
_LOCK = "lock"


@contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """Make a temporary folder in `root` and remove it at the end. Sweeps `root` first, once per process.

    The writer holds a lock in it as long as it lives, by which others can tell: on one machine, or on a
    shared file system that has locks.
    """
    sweep(root)
    folder = root / f"{_PREFIX}{uuid.uuid4()}"
    folder.mkdir()
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache  # a killed worker's successor sweeps before its first write
def sweep(root: Path) -> None:
    """Remove what killed writers left in `root`, which is made where it is missing."""
    root.mkdir(parents=True, exist_ok=True)
    for folder in root.glob(f"{_PREFIX}*"):
        try:
            with (folder / _LOCK).open("a") as lock:
                # The kernel releases a lock when its process ends, however it ends: no age has to be guessed.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # its writer lives, or another sweeper was faster
            continue
