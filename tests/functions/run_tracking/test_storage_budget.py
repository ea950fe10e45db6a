"""How much a folder of blobs may hold: of one blob, of a run, of all, and of the disk."""

import errno
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.functions.run_tracking.blobs import storage_budget
from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.storage_budget import StorageBudget
from headrace.functions.run_tracking.blobs.store import FullError, TooLargeError
from headrace.functions.run_tracking.settings import BlobBounds

MOST = 1 << 40


def put(store: FolderStore, key: str, *parts: bytes, size: int = 0) -> None:
    """Put a blob as the frontier does."""
    receiving = store.receive(key, MOST, size)
    try:
        for part in parts:
            receiving.write(part)
        receiving.finish()
    finally:
        receiving.end()


def files_of(folder: Path) -> list[str]:
    """Without the secret."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.name != ".secret")


@contextmanager
def refused(kind: type[Exception], says: str) -> Iterator[None]:
    with pytest.raises(kind, match=says) as raised:
        yield
    assert "\n" not in str(raised.value)


def test_a_run_has_no_more_bytes_than_it_may(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(run_bytes=100))
    put(store, "r/a", b"x" * 60)
    with refused(TooLargeError, "has 60 bytes of blobs, and 41 more are over 100: BLOBS_MAX_BYTES_PER_RUN"):
        put(store, "r/b", size=41)
    with refused(TooLargeError, "over 100"):
        put(store, "r/b", b"x" * 30, b"x" * 30)
    assert files_of(tmp_path) == ["r/a"]
    put(store, "r/b", b"x" * 40)
    put(store, "q/a", b"x" * 100)


def test_a_run_has_no_more_blobs_than_it_may_however_often_one_is_put(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(run_files=3))
    for number in range(3):
        put(store, f"r/{number}", b"1")
    for _ in range(2):
        with refused(TooLargeError, "the run has 3 blobs, and no more: BLOBS_MAX_FILES_PER_RUN"):
            put(store, "r/more", b"1")


def test_what_replaces_a_blob_takes_the_place_of_its_bytes(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(run_bytes=100, run_files=2))
    for size in (30, 40, 50, 20) * 5:
        put(store, "r/a", b"x" * size)
    put(store, "r/b", b"x" * 80)


def test_all_runs_together_have_no_more_than_there_may_be(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(all_bytes=100))
    put(store, "r/a", b"x" * 60)
    with refused(FullError, "all runs are 60 bytes, and 41 more: BLOBS_MAX_BYTES"):
        put(store, "q/a", b"x" * 41)
    few = FolderStore(tmp_path, "http://x", BlobBounds(all_files=1))
    with refused(FullError, "there are 1 blobs of all runs, and no more: BLOBS_MAX_FILES"):
        put(few, "q/a", b"1")


def test_a_disk_keeps_what_has_to_stay_free(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(free_bytes=1 << 60))
    with refused(FullError, "the disk of the blobs is full: BLOBS_FREE_BYTES"):
        put(store, "r/a", b"1")
    assert files_of(tmp_path) == []


def test_two_that_come_at_once_have_no_more_room_together(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(run_bytes=100))
    one, other = store.receive("r/a", MOST, 60), store.receive("r/b", MOST, 60)
    one.write(b"x" * 60)
    with refused(TooLargeError, "over 100"):
        other.write(b"x" * 60)
    other.end()
    one.finish()
    one.end()
    put(store, "r/b", b"x" * 40)


def test_what_breaks_off_gives_its_room_back(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(run_bytes=100, run_files=1))
    for _ in range(3):
        receiving = store.receive("r/a", MOST)
        receiving.write(b"x" * 100)
        receiving.end()
        receiving.end()
    put(store, "r/a", b"x" * 100)


def test_what_was_there_before_counts(tmp_path: Path) -> None:
    put(FolderStore(tmp_path, "http://x"), "r/deep/er/a", b"x" * 60)
    again = FolderStore(tmp_path, "http://x", BlobBounds(run_bytes=100))
    with refused(TooLargeError, "over 100"):
        put(again, "r/b", b"x" * 41)


def test_what_others_delete_makes_room_and_what_others_put_takes_it(tmp_path: Path) -> None:
    bounds, now = BlobBounds(run_bytes=100), [0.0]
    (tmp_path / ".unfinished").mkdir()
    room = StorageBudget(tmp_path, bounds, lambda: now[0])
    room.check("r", 100)
    other = FolderStore(tmp_path, "http://x")
    put(other, "r/a", b"x" * 80)
    now[0] += 61
    with refused(TooLargeError, "has 80 bytes"):
        room.check("r", 40)
    other.delete_below("r/")
    now[0] += 2
    room.check("r", 40)


def test_a_folder_is_walked_once_and_not_for_each_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[Path] = []
    store, files = FolderStore(tmp_path, "http://x"), storage_budget._files_of

    def counted(folder: Path) -> Iterator[tuple[str, int]]:
        walks.append(folder)
        return files(folder)

    monkeypatch.setattr(storage_budget, "_files_of", counted)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: put(store, f"r/{number}", b"1"), range(50)))
    assert len(walks) == 1


def test_a_walk_that_takes_long_comes_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, walks = [0.0], []

    def slow(_: Path) -> list[tuple[str, int]]:
        walks.append(now[0])
        now[0] += 10
        return [("r", 100)]

    monkeypatch.setattr(storage_budget, "_files_of", slow)
    room = StorageBudget(tmp_path, BlobBounds(run_bytes=100), lambda: now[0])
    for _ in range(500):
        with pytest.raises(TooLargeError):
            room.check("r", 1)
        now[0] += 1
    assert len(walks) == 3


def test_what_a_killed_worker_was_writing_is_forgotten_after_an_hour(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "http://x")
    left, alive = (tmp_path / ".unfinished" / name for name in ("left", "alive"))
    for path in (left, alive):
        path.write_bytes(b"x")
    hour = time.time() - 3700
    os.utime(left, (hour, hour))
    put(store, "r/a", b"1")
    assert files_of(tmp_path) == [".unfinished/alive", "r/a"]


def test_what_is_no_run_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("lost+found", "r", ".unfinished/folder"):
        (tmp_path / folder).mkdir(parents=True)
    scandir = os.scandir

    def refusing(folder: str | Path) -> Iterator[os.DirEntry[str]]:
        if "lost+found" in str(folder):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr("headrace.functions.run_tracking.blobs.storage_budget.os.scandir", refusing)
    hour = time.time() - 3700
    os.utime(tmp_path / ".unfinished/folder", (hour, hour))
    put(FolderStore(tmp_path, "http://x"), "r/a", b"1")
    assert files_of(tmp_path) == ["r/a"]


@pytest.mark.parametrize("failing", ["write", "flush", "close"])
def test_a_full_disk_is_said_so_and_keeps_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    store = FolderStore(tmp_path, "http://x", BlobBounds(run_bytes=100))
    put(store, "r/a", b"first")
    receiving = store.receive("r/a", MOST)
    receiving.write(b"x" * 50)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = receiving._file
    fake = type(
        "Full", (), {"write": file.write, "flush": file.flush, "fileno": file.fileno, "close": file.close}
    )
    setattr(fake, failing, full)
    monkeypatch.setattr(receiving, "_file", fake)
    if failing != "close":
        with refused(FullError, "the folder of blobs: No space left on device"):
            receiving.write(b"x") if failing == "write" else receiving.finish()
    receiving.end()
    file.close()
    assert files_of(tmp_path) == ["r/a"]
    assert (tmp_path / "r/a").read_bytes() == b"first"
    put(store, "r/b", b"x" * 95)
