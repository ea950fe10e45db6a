"""Storage budget of a folder: bytes and files by run and in all, reserved before anything is written.

The folder is walked once and counted on from there. A later walk finds what other processes have written
and deleted. Walks take at most a twentieth of the time, so a slow one is repeated seldom.
"""

import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.functions.run_tracking.blobs.store import FullError, TooLargeError
from headrace.functions.run_tracking.messages.items import RUN_ID
from headrace.functions.run_tracking.settings import BlobBounds

UNFINISHED = ".unfinished"
"""Name of the folder for blobs that are being received."""
_FRESH_SECONDS = 60.0
_LEAST_SECONDS = 1.0  # least time between walks before a refusal
_SHARE = 20
_ABANDONED_SECONDS = 3600.0


@dataclass(slots=True)
class _Usage:
    """Bytes and files, by run and in all."""

    runs: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    all: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, run_id: str, size: int, files: int) -> None:
        of_run = self.runs[run_id]
        for sums in (of_run, self.all):
            sums[0] += size
            sums[1] += files
        if of_run == [0, 0]:
            # A run without blobs is dropped, or the counts would keep every run that ever had one.
            del self.runs[run_id]


class StorageBudget:
    """Budget of one folder. Thread-safe; a call may block as long as a walk of the folder takes."""

    def __init__(self, folder: Path, bounds: BlobBounds, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._bounds, self._now = folder, bounds, now
        self._lock, self._walking = threading.Lock(), threading.Lock()
        self._stored, self._incoming, self._stored_since_walk = _Usage(), _Usage(), _Usage()
        self._walked_at: float | None = None
        self._walk_seconds = 0.0

    def check(self, run_id: str, size: int) -> None:
        """Check that a blob of `size` bytes would fit.

        Raises TooLargeError if its run may not have it, FullError if the folder or the disk has no room.
        """
        self._check_disk(size)
        self._keep_fresh()
        if self._refusal(run_id, size, 1):
            self._walk(_LEAST_SECONDS)  # others may have made room since
        if refusal := self._refusal(run_id, size, 1):
            raise refusal

    def reserve(self, run_id: str, size: int, files: int) -> None:
        """Reserve bytes and files for a blob that is being received. Raises as `check` does."""
        self._check_disk(size)
        with self._lock:
            # No walk before a refusal, unlike in `check`: this is called for each part of an upload.
            if refusal := self._refusal(run_id, size, files):
                raise refusal
            self._incoming.add(run_id, size, files)

    def release(self, run_id: str, size: int, files: int) -> None:
        """Release the reservation of a blob that was discarded."""
        with self._lock:
            self._incoming.add(run_id, -size, -files)

    def commit(self, run_id: str, size: int, replaced: int | None) -> None:
        """Turn a reservation into usage: the blob is stored, and has replaced one of `replaced` bytes."""
        with self._lock:
            self._incoming.add(run_id, -size, -1)
            for taken in (self._stored, self._stored_since_walk):
                taken.add(run_id, size - (replaced or 0), 0 if replaced is not None else 1)

    def _check_disk(self, size: int) -> None:
        """Raise FullError if the disk would be left with less than BLOBS_FREE_BYTES."""
        least = self._bounds.free_bytes
        if least and shutil.disk_usage(self._folder).free - size < least:
            raise FullError(f"the disk of the blobs is full: BLOBS_FREE_BYTES keeps {least} bytes free")

    def _refusal(self, run_id: str, size: int, files: int) -> Exception | None:
        bounds = self._bounds
        own = [self._stored.runs.get(run_id, (0, 0)), self._incoming.runs.get(run_id, (0, 0))]
        run_bytes, run_files = (sum(sums) for sums in zip(*own, strict=True))
        if size and run_bytes + size > bounds.run_bytes:
            has = f"the run has {run_bytes} bytes of blobs, and {size} more"
            return TooLargeError(f"{has} are over {bounds.run_bytes}: BLOBS_MAX_BYTES_PER_RUN")
        if files and run_files + files > bounds.run_files:
            return TooLargeError(f"the run has {run_files} blobs, and no more: BLOBS_MAX_FILES_PER_RUN")
        all_bytes, all_files = (sum(sums) for sums in zip(self._stored.all, self._incoming.all, strict=True))
        if size and all_bytes + size > bounds.all_bytes:
            return FullError(f"the blobs of all runs are {all_bytes} bytes, and {size} more: BLOBS_MAX_BYTES")
        if files and all_files + files > bounds.all_files:
            return FullError(f"there are {all_files} blobs of all runs, and no more: BLOBS_MAX_FILES")
        return None

    def _keep_fresh(self) -> None:
        """Walk the folder if the counts are old, unless another thread does. The first walk is awaited."""
        if self._walked_at is None or not self._walking.locked():
            self._walk(_FRESH_SECONDS)

    def _walk(self, seconds: float) -> None:
        """Count the folder anew, unless the last walk is younger than `seconds`."""
        with self._walking:
            began = self._now()
            age = None if self._walked_at is None else began - self._walked_at
            if age is not None and age < max(seconds, self._walk_seconds * _SHARE):
                return
            found = _Usage()
            with self._lock:
                # A blob that is stored meanwhile is added here too, and counted twice if the walk comes to
                # it: until the next walk the budget is rather too small than too large.
                self._stored_since_walk = found
            # The lock is taken for each file, not for the walk: uploads go on meanwhile.
            for run_id, size in _files_of(self._folder):
                with self._lock:
                    found.add(run_id, size, 1)
            with self._lock:
                self._stored, self._stored_since_walk = found, _Usage()
            self._walked_at = self._now()
            self._walk_seconds = self._walked_at - began


def _files_of(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the run and the size of each blob."""
    for entry in _entries(folder):
        if entry.name == UNFINISHED:
            _delete_abandoned(entry.path)
        elif RUN_ID.fullmatch(entry.name):  # not lost+found, which nobody may read
            yield from ((entry.name, size) for size in _sizes(entry))


def _sizes(entry: os.DirEntry[str]) -> Iterator[int]:
    if entry.is_dir(follow_symlinks=False):
        for below in _entries(entry.path):
            yield from _sizes(below)
        return
    with suppress(FileNotFoundError):
        yield entry.stat(follow_symlinks=False).st_size


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile
        return []


def _delete_abandoned(folder: str) -> None:
    """Delete what killed workers left unfinished: files that nobody has written to for an hour."""
    for entry in _entries(folder):
        with suppress(OSError):
            if time.time() - entry.stat().st_mtime > _ABANDONED_SECONDS:
                Path(entry.path).unlink()
