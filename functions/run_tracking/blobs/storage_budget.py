"""How much of a folder is taken, by each run and by all: what comes gets its room before it is written.

The folder is walked once, and then counted on. It is walked again after a while, for what others have done:
workers beside this one, and who deletes. A walk that takes long comes seldom: it has a twentieth of the time.
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
"""The folder of what is on its way."""
_FRESH_SECONDS = 60.0
_LEAST_SECONDS = 1.0  # between two walks, where something would be refused
_SHARE = 20
_ABANDONED_SECONDS = 3600.0


@dataclass(slots=True)
class _Usage:
    """Bytes and files, of each run and of all."""

    runs: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    all: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, run_id: str, size: int, files: int) -> None:
        of_run = self.runs[run_id]
        for sums in (of_run, self.all):
            sums[0] += size
            sums[1] += files
        if of_run == [0, 0]:
            del self.runs[run_id]


class StorageBudget:
    """Of one folder. Used by many threads; it may block as long as a walk takes."""

    def __init__(self, folder: Path, bounds: BlobBounds, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._bounds, self._now = folder, bounds, now
        self._lock, self._walking = threading.Lock(), threading.Lock()
        self._there, self._coming, self._since = _Usage(), _Usage(), _Usage()
        self._walked_at: float | None = None
        self._walk_seconds = 0.0

    def check(self, run_id: str, size: int) -> None:
        """Raises TooLargeError where its run may not have a blob of that size, FullError where none may."""
        self._check_disk(size)
        self._keep_fresh()
        if self._refusal(run_id, size, 1):
            self._walk(_LEAST_SECONDS)  # others may have made room since
        if refusal := self._refusal(run_id, size, 1):
            raise refusal

    def take(self, run_id: str, size: int, files: int) -> None:
        """For what has come of a blob. Raises as `check` does."""
        self._check_disk(size)
        with self._lock:
            if refusal := self._refusal(run_id, size, files):
                raise refusal
            self._coming.add(run_id, size, files)

    def give_back(self, run_id: str, size: int, files: int) -> None:
        """Of a blob that doesn't come."""
        with self._lock:
            self._coming.add(run_id, -size, -files)

    def settle(self, run_id: str, size: int, replaced: int | None) -> None:
        """The blob is there, of `size`, and stands where one of `replaced` bytes was."""
        with self._lock:
            self._coming.add(run_id, -size, -1)
            for taken in (self._there, self._since):
                taken.add(run_id, size - (replaced or 0), 0 if replaced is not None else 1)

    def _check_disk(self, size: int) -> None:
        """Raises FullError where the disk would have less left than it has to keep."""
        least = self._bounds.free_bytes
        if least and shutil.disk_usage(self._folder).free - size < least:
            raise FullError(f"the disk of the blobs is full: BLOBS_FREE_BYTES keeps {least} bytes free")

    def _refusal(self, run_id: str, size: int, files: int) -> Exception | None:
        bounds = self._bounds
        own = [self._there.runs.get(run_id, (0, 0)), self._coming.runs.get(run_id, (0, 0))]
        run_bytes, run_files = (sum(sums) for sums in zip(*own, strict=True))
        if size and run_bytes + size > bounds.run_bytes:
            has = f"the run has {run_bytes} bytes of blobs, and {size} more"
            return TooLargeError(f"{has} are over {bounds.run_bytes}: BLOBS_MAX_BYTES_PER_RUN")
        if files and run_files + files > bounds.run_files:
            return TooLargeError(f"the run has {run_files} blobs, and no more: BLOBS_MAX_FILES_PER_RUN")
        all_bytes, all_files = (sum(sums) for sums in zip(self._there.all, self._coming.all, strict=True))
        if size and all_bytes + size > bounds.all_bytes:
            return FullError(f"the blobs of all runs are {all_bytes} bytes, and {size} more: BLOBS_MAX_BYTES")
        if files and all_files + files > bounds.all_files:
            return FullError(f"there are {all_files} blobs of all runs, and no more: BLOBS_MAX_FILES")
        return None

    def _keep_fresh(self) -> None:
        """Nobody waits for a walk, but for the first one."""
        if self._walked_at is None or not self._walking.locked():
            self._walk(_FRESH_SECONDS)

    def _walk(self, seconds: float) -> None:
        """Unless the last one is younger than that."""
        with self._walking:
            began = self._now()
            age = None if self._walked_at is None else began - self._walked_at
            if age is not None and age < max(seconds, self._walk_seconds * _SHARE):
                return
            found = _Usage()
            with self._lock:
                self._since = found  # what is settled meanwhile may be counted twice, until the next walk
            for run_id, size in _files_of(self._folder):
                with self._lock:
                    found.add(run_id, size, 1)
            with self._lock:
                self._there, self._since = found, _Usage()
            self._walked_at = self._now()
            self._walk_seconds = self._walked_at - began


def _files_of(folder: Path) -> Iterator[tuple[str, int]]:
    """The run and the size of each blob."""
    for entry in _entries(folder):
        if entry.name == UNFINISHED:
            _forget_abandoned(entry.path)
        elif RUN_ID.fullmatch(entry.name):  # a disk has a folder lost+found, which nobody may read
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


def _forget_abandoned(folder: str) -> None:
    """What a worker was writing when it was killed: for an hour, nobody has."""
    for entry in _entries(folder):
        with suppress(OSError):
            if time.time() - entry.stat().st_mtime > _ABANDONED_SECONDS:
                Path(entry.path).unlink()
