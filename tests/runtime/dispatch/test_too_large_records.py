"""Records that fetchMax does not allow."""

from collections.abc import Collection
from pathlib import Path

import pytest
from failure_bench import FAILS_AT_5, journal_of, order, policy
from worker_bench import Record, bench, until

from headrace.runtime.partitions.status import is_stuck, open_problem, problem, stuck_at


def sized(first: int, count: int, large: Collection[int]) -> list[Record]:
    return [Record(n, b"." * (101 if n in large else 10)) for n in range(first, first + count)]


@pytest.mark.full_but("large1", "large0")
@pytest.mark.parametrize("large", [{0}, {9}, {0, 1, 2}, {3, 4}, {7, 8, 9}, {0, 9}, set(range(10))])
async def test_records_above_fetch_max_are_skipped_undelivered(tmp_path: Path, large: set[int]) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("skip", fetch_max_bytes=100)) as b:
        (tmp_path / "mended").touch()
        (p,) = b.assign(("t", 0))
        b.feed(p, sized(0, 10, large))
        await b.settled(p, 10)
        b.feed(p, sized(10, 5, ()))
        await b.settled(p, 15)
        assert order(b) == [n for n in range(15) if n not in large]
        assert not p.failed


async def test_three_hundred_records_above_fetch_max_in_a_row_are_no_trouble(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("skip", fetch_max_bytes=100)) as b:
        (tmp_path / "mended").touch()
        (p,) = b.assign(("t", 0))
        b.feed(p, sized(0, 310, range(5, 305)))
        await b.settled(p, 310)
        assert order(b) == [*range(5), *range(305, 310)]


async def test_three_hundred_dead_letters_in_a_row_stay_in_order(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", fetch_max_bytes=100)) as b:
        (tmp_path / "mended").touch()
        journal = journal_of(b)
        (p,) = b.assign(("t", 0))
        b.feed(p, sized(0, 310, range(5, 305)))
        await b.settled(p, 310)
        assert [letter[0].offset for letter in journal.dead_letters] == list(range(5, 305))
        assert journal.dead_letters[0][1:] == ("it has 101 bytes, more than fetchMax (100) allows", 0)


async def test_a_record_above_fetch_max_halts_and_can_be_skipped(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy(fetch_max_bytes=100)) as b:
        (tmp_path / "mended").touch()
        (p,) = b.assign(("t", 0))
        b.feed(p, sized(0, 10, {4, 5}))
        await until(lambda: is_stuck(p))
        assert open_problem(p) == problem(p)
        assert problem(p).startswith("t/0 is halted at offset 4: it has 101 bytes, more than fetchMax (100)")
        b.dispatcher.act("retry", p)
        assert stuck_at(p) == 4
        b.dispatcher.act("skip", p)
        await until(lambda: is_stuck(p) and stuck_at(p) == 5)
        b.dispatcher.act("skip", p)
        await b.settled(p, 10)
        assert order(b) == [0, 1, 2, 3, 6, 7, 8, 9]


async def test_a_key_counts_for_fetch_max_and_exactly_as_much_is_fine(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("skip", fetch_max_bytes=100)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, [Record(0, b"." * 60, b"." * 40), Record(1, b"." * 60, b"." * 41), Record(2, None)])
        await b.settled(p, 3)
        assert order(b) == [0, 2]
