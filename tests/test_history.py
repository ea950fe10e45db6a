"""The checkers of the storms: each finds what it is there for, and nothing in a clean history."""

from pathlib import Path

from history import (
    Entry,
    Sample,
    changed_letters,
    committed_too_far,
    longest_stall,
    lost,
    moved_back,
    out_of_order,
    overlaps,
    read_history,
    repeated,
    started_between,
)

SECOND = 10**9


def ran(offset: int, start: float, end: float | None, pid: int = 1, partition: int = 0) -> list[Entry]:
    """One call of a handler; without an end it was killed in it."""
    about = ("t", partition, offset, 1, pid, pid * 10)
    entries = [Entry("START", *about, int(start * SECOND))]
    return entries if end is None else [*entries, Entry("END", *about, int(end * SECOND))]


CLEAN = [*ran(0, 0, 1), *ran(1, 1, 2), *ran(2, 3, 4, pid=2), *ran(0, 0, 9, pid=3, partition=1)]
PRODUCED = {("t", 0, 0), ("t", 0, 1), ("t", 0, 2), ("t", 1, 0)}


def committed(at: float, offset: int, partition: int = 0) -> Sample:
    return Sample(int(at * SECOND), {("t", partition): offset})


def test_a_clean_history_has_nothing_to_find() -> None:
    samples = [committed(0.5, 0), committed(2.5, 2), committed(5, 3)]
    assert not lost(PRODUCED, CLEAN)
    assert not repeated(CLEAN)
    assert not out_of_order(CLEAN)
    assert not overlaps(CLEAN)
    assert not committed_too_far(samples, CLEAN, PRODUCED)
    assert not moved_back(samples)


def test_a_record_is_lost_that_was_started_and_never_ended() -> None:
    assert lost({("t", 0, 0), ("t", 0, 1)}, [*ran(0, 0, 1), *ran(1, 1, None)]) == {("t", 0, 1)}


def test_a_record_is_not_lost_that_was_given_up() -> None:
    assert not lost({("t", 0, 0)}, [], given_up={("t", 0, 0)})


def test_each_end_after_the_first_is_a_repetition_and_a_start_is_none() -> None:
    history = [*ran(0, 0, None), *ran(0, 1, 2), *ran(0, 2, 3), *ran(0, 3, 4)]
    assert [entry.ns for entry in repeated(history)] == [3 * SECOND, 4 * SECOND]


def test_first_ends_in_falling_order_are_found_and_repetitions_are_none() -> None:
    assert not out_of_order([*ran(0, 0, 1), *ran(1, 1, 2), *ran(0, 2, 3), *ran(1, 3, 4), *ran(2, 4, 5)])
    [(before, after)] = out_of_order([*ran(1, 0, 1), *ran(0, 1, 2)])
    assert (before.offset, after.offset) == (1, 0)


def test_two_processes_in_one_partition_overlap_for_as_long_as_both_run() -> None:
    history = [*ran(0, 0, 4), *ran(1, 3, 9, pid=2)]
    history.sort(key=lambda entry: entry.ns)
    [(first, second, seconds)] = overlaps(history)
    assert (first.offset, second.offset, seconds) == (0, 1, 1.0)


def test_a_long_handler_overlaps_with_all_that_start_in_it() -> None:
    history = sorted([*ran(0, 0, 9), *ran(1, 1, 2, 2), *ran(2, 3, 4, 2)], key=lambda entry: entry.ns)
    assert len(overlaps(history)) == 2


def test_a_killed_handler_is_known_to_have_run_only_when_it_wrote() -> None:
    assert not overlaps([*ran(0, 0, None), *ran(0, 1, 2, pid=2)])


def test_a_commit_is_too_far_before_the_end_that_it_covers_was_written() -> None:
    [(sample, record)] = committed_too_far([committed(1.5, 2)], CLEAN, PRODUCED)
    assert (sample.ns, record) == (1.5 * SECOND, ("t", 0, 1))


def test_a_commit_is_too_far_over_a_record_that_never_ended() -> None:
    samples = [committed(50, 2)]
    assert committed_too_far(samples, ran(0, 0, 1), {("t", 0, 0), ("t", 0, 1)})
    assert not committed_too_far(samples, ran(0, 0, 1), {("t", 0, 0), ("t", 0, 1)}, given_up={("t", 0, 1)})
    assert not committed_too_far(samples, ran(0, 0, 1), {("t", 0, 0)})  # offset 1 holds no record


def test_a_commit_below_an_earlier_one_has_moved_back_whatever_the_order_of_the_samples() -> None:
    assert moved_back([committed(3, 1), committed(2, 5)]) == [(("t", 0), 5, 1)]
    assert not moved_back([committed(1, 5), committed(2, 1, partition=1)])


def test_what_a_replica_starts_while_nothing_is_its_own_is_found() -> None:
    assert started_between(CLEAN, 20, 2 * SECOND, 5 * SECOND)
    assert not started_between(CLEAN, 20, 3 * SECOND, 5 * SECOND)
    assert not started_between(CLEAN, 10, 2 * SECOND, 5 * SECOND)


def test_a_dead_letter_is_what_was_produced_or_it_has_changed() -> None:
    originals = {("t", 0, 0): (b"k", b"v"), ("t", 0, 1): (None, b"")}
    assert not changed_letters(originals, {("t", 0, 1): (None, b"")})
    assert changed_letters(originals, {("t", 0, 1): (None, None)}) == {("t", 0, 1)}
    assert changed_letters(originals, {("t", 9, 9): (None, None)}) == {("t", 9, 9)}


def test_the_longest_stall_is_between_two_ends() -> None:
    assert longest_stall(CLEAN) == 5.0
    assert longest_stall([]) == 0.0


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_history(tmp_path) == []
    (tmp_path / "history").write_text("START t 3 41 2 77 70 123\nEND t 3 41 2 77 70 456\n")
    start, end = read_history(tmp_path)
    assert start == Entry("START", "t", 3, 41, 2, 77, 70, 123)
    assert (end.key, end.record, end.ns) == (("t", 3), ("t", 3, 41), 456)
