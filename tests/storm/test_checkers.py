"""The checkers of the storms: each finds what it is there for, and nothing in a clean history."""

from dataclasses import replace
from pathlib import Path

from commits import Sample, committed_too_far, moved_back
from deliveries import changed_letters, longest_stall, lost, repeated
from frozen import gone_on_with, started_between, started_late
from history import Entry, History, read_history
from order import out_of_order, overlaps

SECOND = 10**9


def ran(offset: int, start: float, end: float | None, pid: int = 1, partition: int = 0) -> list[Entry]:
    """One call of a handler; without an end it was killed in it."""
    about = ("t", partition, offset, 1, pid, pid * 10)
    entries = [Entry("START", *about, int(start * SECOND))]
    return entries if end is None else [*entries, Entry("END", *about, int(end * SECOND))]


def killed(offset: int, start: float, *ticks: float, pid: int = 1, partition: int = 0) -> list[Entry]:
    """One that said so now and then, and has no end."""
    about = ("t", partition, offset, 1, pid, pid * 10)
    said = [Entry("TICK", *about, int(tick * SECOND)) for tick in ticks]
    return [*ran(offset, start, None, pid, partition), *said]


def in_time(*runs: list[Entry]) -> list[Entry]:
    """As processes that run at the same time write them."""
    return sorted((entry for run in runs for entry in run), key=lambda entry: entry.ns)


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
    assert not committed_too_far(samples, CLEAN, PRODUCED, {})
    assert not moved_back(samples)


def test_a_record_is_lost_that_was_started_and_never_ended() -> None:
    assert lost({("t", 0, 0), ("t", 0, 1)}, [*ran(0, 0, 1), *ran(1, 1, None)]) == {("t", 0, 1)}


def test_a_record_is_not_lost_that_was_given_up() -> None:
    assert not lost({("t", 0, 0)}, [], given_up={("t", 0, 0)})


def test_each_end_after_the_first_is_a_repetition_and_a_start_is_none() -> None:
    history = [*ran(0, 0, None), *ran(0, 1, 2), *ran(0, 2, 3), *ran(0, 3, 4)]
    assert [entry.ns for entry in repeated(history)] == [3 * SECOND, 4 * SECOND]


def test_first_starts_in_falling_order_are_found_and_repetitions_are_none() -> None:
    assert not out_of_order([*ran(0, 0, 1), *ran(1, 1, 2), *ran(0, 2, 3), *ran(1, 3, 4), *ran(2, 4, 5)])
    [(before, after)] = out_of_order([*ran(1, 0, 1), *ran(0, 1, 2)])
    assert (before.offset, after.offset) == (1, 0)


def test_a_start_in_front_of_an_earlier_record_is_found_though_it_never_ended_or_ended_later() -> None:
    assert out_of_order([*ran(1, 0, None), *ran(0, 1, 2), *ran(1, 2, 3)])
    assert out_of_order(in_time(ran(1, 0, 9), ran(0, 1, 2, pid=2)))


def test_a_killed_start_may_come_again_after_those_before_it() -> None:
    assert not out_of_order([*ran(0, 0, 1), *ran(1, 1, None), *ran(0, 2, 3), *ran(1, 3, 4), *ran(2, 4, 5)])


def test_two_processes_in_one_partition_overlap_for_as_long_as_both_run() -> None:
    history = in_time(ran(0, 0, 4), ran(1, 3, 9, pid=2))
    [(first, second, seconds)] = overlaps(history)
    assert (first.offset, second.offset, seconds) == (0, 1, 1.0)


def test_a_long_handler_overlaps_with_all_that_start_in_it() -> None:
    assert len(overlaps(in_time(ran(0, 0, 9), ran(1, 1, 2, 2), ran(2, 3, 4, 2)))) == 2


def test_a_killed_handler_overlaps_with_what_starts_before_its_last_tick() -> None:
    history = in_time(killed(0, 0, 1, 4), ran(0, 3, 9, pid=2))
    [(first, second, seconds)] = overlaps(history)
    assert (first.pid, second.pid, seconds) == (1, 2, 1.0)


def test_a_handler_that_failed_and_started_again_overlaps_until_its_last_tick() -> None:
    history = in_time(killed(0, 0, 2), ran(0, 5, 6), ran(1, 1, 3, pid=2))
    [(first, second, seconds)] = overlaps(history)
    assert (first.ns, second.pid, seconds) == (0, 2, 1.0)


def test_a_killed_handler_is_known_to_have_run_only_until_its_last_tick() -> None:
    assert not overlaps([*ran(0, 0, None), *ran(0, 1, 2, pid=2)])
    assert not overlaps(in_time(killed(0, 0, 1, 2), ran(0, 3, 4, pid=2)))
    assert not overlaps(in_time(killed(0, 0, 1), ran(5, 2, 9, partition=1), ran(0, 3, 4, pid=2)))


def test_a_tick_is_no_end() -> None:
    history = killed(0, 0, 1, 2)
    assert lost({("t", 0, 0)}, history) == {("t", 0, 0)}
    assert not repeated([*history, *ran(0, 3, 4)])
    assert committed_too_far([committed(5, 1)], history, {("t", 0, 0)}, {})


def test_a_commit_is_too_far_before_the_end_that_it_covers_was_written() -> None:
    [(sample, record)] = committed_too_far([committed(1.5, 2)], CLEAN, PRODUCED, {})
    assert (sample.ns, record) == (1.5 * SECOND, ("t", 0, 1))


def test_a_commit_is_too_far_over_a_record_that_never_ended() -> None:
    samples = [committed(50, 2)]
    assert committed_too_far(samples, ran(0, 0, 1), {("t", 0, 0), ("t", 0, 1)}, {})
    given_up = {("t", 0, 1): 49 * SECOND}
    assert not committed_too_far(samples, ran(0, 0, 1), {("t", 0, 0), ("t", 0, 1)}, given_up)
    assert not committed_too_far(samples, ran(0, 0, 1), {("t", 0, 0)}, {})  # offset 1 holds no record


def test_a_commit_below_an_earlier_one_has_moved_back_whatever_the_order_of_the_samples() -> None:
    assert moved_back([committed(3, 1), committed(2, 5)]) == [(("t", 0), 5, 1)]
    assert not moved_back([committed(1, 5), committed(2, 1, partition=1)])


def test_what_a_replica_starts_while_nothing_is_its_own_is_found() -> None:
    assert started_between(CLEAN, 20, 2 * SECOND, 5 * SECOND)
    assert not started_between(CLEAN, 20, 3 * SECOND, 5 * SECOND)
    assert not started_between(CLEAN, 10, 2 * SECOND, 5 * SECOND)


def test_a_frozen_process_may_go_on_with_the_record_that_it_was_in_and_with_no_other() -> None:
    in_it = in_time(killed(4, 1, 5, 6), ran(7, 1, 5.5, pid=2, partition=1), ran(5, 3, 4, pid=3))
    assert gone_on_with(in_it, {1, 2, 3}, 4 * SECOND + 1) == {1: ("t", 0, 4), 2: ("t", 1, 7)}
    assert not started_late(in_it, {1, 2}, 4 * SECOND, 9 * SECOND)
    [late] = started_late(in_time(in_it, ran(8, 6, 7, pid=2)), {1, 2}, 4 * SECOND, 9 * SECOND)
    assert (late.pid, late.offset) == (2, 8)


def test_a_frozen_process_may_have_been_about_to_say_that_it_starts() -> None:
    history = [*ran(4, 5, 6), *ran(5, 7, 8)]
    assert gone_on_with(history, {1}, 4 * SECOND) == {1: ("t", 0, 4)}
    [late] = started_late(history, {1}, 4 * SECOND, 9 * SECOND)
    assert late.offset == 5
    assert not started_late(history, {1}, 4 * SECOND, int(6.5 * SECOND))  # it was given it anew


def test_a_dead_letter_is_what_was_produced_or_it_has_changed() -> None:
    originals = {("t", 0, 0): (b"k", b"v"), ("t", 0, 1): (None, b"")}
    assert not changed_letters(originals, {("t", 0, 1): (None, b"")})
    assert changed_letters(originals, {("t", 0, 1): (None, None)}) == {("t", 0, 1)}
    assert changed_letters(originals, {("t", 9, 9): (None, None)}) == {("t", 9, 9)}


def test_the_longest_stall_is_between_two_ends_of_a_partition_or_before_its_first() -> None:
    assert longest_stall(CLEAN) == 8.0
    assert longest_stall([it for it in CLEAN if it.partition == 0]) == 2.0
    assert longest_stall([]) == 0.0


def test_who_takes_over_begins_at_a_commit_and_so_does_the_next() -> None:
    first, second = [*ran(0, 0, 1), *ran(1, 1, 2), *ran(2, 2, 3)], ran(1, 4, 5, pid=2)
    assert not out_of_order([*first, *second, *ran(1, 6, 7, pid=3), *ran(2, 7, 8, pid=3)])
    [(before, after)] = out_of_order([*first, *second, *ran(0, 6, 7, pid=3)])
    assert (before.pid, after.pid) == (2, 3)


def test_a_worker_that_was_replaced_may_have_the_record_again_and_a_later_owner_all_from_the_commit() -> None:
    replaced = [replace(it, replica=10) for it in ran(2, 3, 4, pid=5)]
    history = [*ran(0, 0, 1), *ran(1, 1, 2), *ran(2, 2, None), *replaced, *ran(0, 5, 6, pid=2)]
    assert not out_of_order(history)


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_history(tmp_path) == []
    (tmp_path / "history").write_text("START t 3 41 2 77 70 123\nEND t 3 41 2 77 70 456\n")
    start, end = read_history(tmp_path)
    assert start == Entry("START", "t", 3, 41, 2, 77, 70, 123)
    assert (end.key, end.record, end.ns) == (("t", 3), ("t", 3, 41), 456)


def test_a_history_that_grows_is_read_on(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.read_on()
    assert not history.entries
    with (tmp_path / "history").open("a", buffering=1) as file:
        for offset in range(3):
            file.write(f"START t 3 {offset} 1 77 70 123\nEND t 3 {offset} 1 77 70 456\n")
            history.read_on()
            history.read_on()
            assert history.ended == {("t", 3, n) for n in range(offset + 1)}
    assert history.entries == read_history(tmp_path)
    assert len(history.entries) == 6
