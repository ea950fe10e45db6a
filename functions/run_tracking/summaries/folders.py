"""Folders of the summaries: each refresh writes a new one, and a link names the one that is current.

ROOT/{runs,experiments,curves} are links into ROOT/current, which is a link to ROOT/versions/ID.
"""

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAMES = ("runs", "experiments", "curves")
_FINGERPRINT = "fingerprint"


def last_fingerprint(root: Path) -> str | None:
    """Return the fingerprint of what is published; None before the first refresh."""
    try:
        return (root / "current" / _FINGERPRINT).read_text()
    except FileNotFoundError:
        return None


def publish(root: Path, written: Path, fingerprint: str) -> None:
    """Make the folder `written`, which lies in `root`, the current version.

    The version before stays until the next refresh, for readers that have its files open.
    """
    (written / _FINGERPRINT).write_text(fingerprint)
    # Before any link names it.
    _sync(written)
    with _publish_lock(root):
        # Under the lock: another refresh may just have published.
        before = os.path.realpath(root / "current")
        versions = root / "versions"
        versions.mkdir(exist_ok=True)
        version = written.rename(versions / uuid.uuid4().hex)
        for name in _NAMES:
            _link(root / name, f"current/{name}")
        _link(root / "current", f"versions/{version.name}")
        for old in versions.iterdir():
            # Older than the version before: no reader has been given its files for a whole refresh.
            if old != version and str(old) != before:
                shutil.rmtree(old, ignore_errors=True)


def _link(place: Path, target: str) -> None:
    """Make or replace a link, atomically."""
    if place.is_symlink() and str(place.readlink()) == target:
        return
    # A link can't be changed in place, only replaced by a rename.
    new = place.with_name(f".{place.name}-{uuid.uuid4().hex}")
    new.symlink_to(target)
    new.replace(place)


@contextmanager
def _publish_lock(root: Path) -> Iterator[None]:
    """Hold a lock against other publishers, on this machine or on a shared file system that has locks."""
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sync(folder: Path) -> None:
    """Sync all files and folders, so that after a power cut no link names files that were never written."""
    for path in (*folder.rglob("*"), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
