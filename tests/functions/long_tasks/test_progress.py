"""Checkpoints, and the task that comes with the function, which goes on from them."""

from pathlib import Path

import pytest

from headrace.functions.long_tasks.checkpoints import (
    CheckpointFolder,
    NoCheckpoints,
    Progress,
    open_checkpoints,
)
from headrace.functions.long_tasks.communication_pb2 import Request
from headrace.functions.long_tasks.primes import count_primes


class CutOffError(Exception):
    """The task is cut off."""


class CutOff(Progress):
    """Progress of a task that is asked to save after two steps and killed as soon as it has."""

    steps = 0

    @property
    def should_save(self) -> bool:
        self.steps += 1
        return self.steps > 2

    def save(self, state: bytes) -> None:
        super().save(state)
        raise CutOffError


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (2, 0), (3, 1), (100, 25), (10_000, 1229)])
def test_primes_are_counted(limit: int, count: int) -> None:
    progress = Progress(NoCheckpoints(), "a")
    assert count_primes(Request(payload=str(limit)), progress, worker_number=0, dummy="dummy") == count


def test_a_count_that_is_cut_off_is_continued_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    request, folder = Request(payload="10000"), CheckpointFolder(tmp_path)
    for done in (b"2000 303", b"4000 550", b"6000 783"):
        with pytest.raises(CutOffError):
            count_primes(request, CutOff(folder, "a"), worker_number=0)
        assert folder.load("a") == done
    assert count_primes(request, Progress(folder, "a"), worker_number=0) == 1229


def test_a_checkpoint_is_replaced_whole_and_dropped_once(tmp_path: Path) -> None:
    kept = open_checkpoints(str(tmp_path / "made"))
    assert kept.load("a") is None
    for state in (b"1", b"", b"2" * 100_000):
        kept.save("a", state)
        assert kept.load("a") == state
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["a"]
    kept.delete("a")
    kept.delete("a")
    assert kept.load("a") is None


def test_without_a_folder_nothing_is_kept() -> None:
    kept = open_checkpoints("")
    kept.save("a", b"1")
    kept.delete("a")
    assert kept.load("a") is None
