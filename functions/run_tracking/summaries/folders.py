"""Where summaries are. Each refresh has a folder of its own; one link says which counts: nobody reads half.

ROOT/{runs,experiments,curves} are links to the same in ROOT/current, a link to ROOT/versions/ID.
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
    """Of what is published; None where nothing is."""
    try:
        return (root / "current" / _FINGERPRINT).read_text()
    except FileNotFoundError:
        return None


def publish(root: Path, written: Path, fingerprint: str) -> None:
    """In place of what was. That stays until the next one, for its readers. `written` is in `root`."""
    (written / _FINGERPRINT).write_text(fingerprint)
    _sync(written)
    with _alone(root):
        before = os.path.realpath(root / "current")
        versions = root / "versions"
        versions.mkdir(exist_ok=True)
        version = written.rename(versions / uuid.uuid4().hex)
        for name in _NAMES:
            _link(root / name, f"current/{name}")
        _link(root / "current", f"versions/{version.name}")
        for old in versions.iterdir():
            if old != version and str(old) != before:
                shutil.rmtree(old, ignore_errors=True)


def _link(place: Path, target: str) -> None:
    """At once, whatever link was there."""
    if place.is_symlink() and str(place.readlink()) == target:
        return
    new = place.with_name(f".{place.name}-{uuid.uuid4().hex}")
    new.symlink_to(target)
    new.replace(place)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """None of the others publishes meanwhile: on one machine, or on a shared file system that has locks."""
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sync(folder: Path) -> None:
    """So that a power cut leaves no link to files that were never written."""
    for path in (*folder.rglob("*"), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
