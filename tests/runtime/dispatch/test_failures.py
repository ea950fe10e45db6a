"""Records that fail, with real workers: attempts, the waits between them, what comes after the last one."""

import asyncio
import os
import signal
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from worker_bench import QUICK, QUICK_RETRIES, Bench, Record, bench, records, until

from headrace.runtime.config.delivery import AckMode, DeliveryPolicy
from headrace.runtime.config.failure import FailurePolicy, Then
from headrace.runtime.dispatch import failures
from headrace.runtime.dispatch.feed import NoFeed
from headrace.runtime.partitions.assigned import AssignedPartition, PartitionState
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.wire.frames import WireRecord

FAILS_AT_5 = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset} {event.attempt}")
        if event.shard_id == 0 and event.offset == 5 and not exists("mended"):
            raise ValueError("no such customer")
"""


class Journal(NoFeed):
    """Keeps what it was asked for. `gate` holds up its answers; while `is_away` nothing is committed."""

    def __init__(self) -> None:
        self.persisted: list[Checkpoint] = []
        self.dead_letters: list[tuple[WireRecord, str, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_away = False
        self.refusal: Exception | None = None  # of dead letters

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        self.persisted += [partition.checkpoint for partition in partitions]
        await self.gate.wait()
        return not self.is_away

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        self.dead_letters.append((record, reason, attempts))
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        return True


def journal_of(b: Bench) -> Journal:
    journal = Journal()
    b.dispatcher.feed = journal
    return journal


def policy(then: Then = "halt", *, attempts: int = 3, **others: object) -> DeliveryPolicy:
    """Quick retries, then `then`."""
    failure = replace(QUICK_RETRIES, max_attempts=attempts, then=then, dead_letter_topic="dlq")
    return replace(QUICK, failure=failure, **others)  # type: ignore[arg-type]


def assign_from(b: Bench, checkpoint: Checkpoint) -> AssignedPartition:
    """A new assignment of partition t/0, with what the last owner has committed."""
    partition = AssignedPartition("t", 0, checkpoint, 256)
    b.dispatcher.assign([partition])
    return partition


def attempts_at(b: Bench, offset: int) -> list[int]:
    """The attempt numbers that the handler saw, of partition 0."""
    rows = [line.split() for line in b.lines()]
    return [int(row[2]) for row in rows if row[:2] == ["0", str(offset)]]


def order(b: Bench, shard: int = 0) -> list[int]:
    """Offsets as the handler met them, each once where deliveries follow each other."""
    offsets = [int(line.split()[1]) for line in b.lines() if line.startswith(f"{shard} ")]
    return [offset for at, offset in enumerate(offsets) if not at or offsets[at - 1] != offset]


# ---- attempts and waits


def test_the_wait_doubles_with_jitter_and_never_exceeds_the_maximum() -> None:
    waits = FailurePolicy(backoff_seconds=1, max_backoff_seconds=10)
    for attempt, full in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (5000, 10)):
        found = [waits.wait_seconds(attempt) for _ in range(200)]
        assert max(found) <= full
        assert min(found) >= 0.75 * full
        assert len(set(found)) > 100


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_a_record_is_delivered_max_attempts_times_and_then_halts(tmp_path: Path, attempts: int) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy(attempts=attempts)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.state is PartitionState.HALTED)
        assert attempts_at(b, 5) == list(range(1, attempts + 1))
        assert order(b) == [0, 1, 2, 3, 4, 5]
        assert (p.ledger.committable, p.is_stuck, p.stuck_at) == (5, True, 5)


async def test_max_attempts_0_tries_for_ever(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.attempt < 25:
                raise ValueError("not yet")
    """
    async with bench(tmp_path, handler, policy=policy(attempts=0)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
        assert attempts_at(b, 0) == list(range(1, 26))


async def test_a_partition_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    slow = replace(QUICK, failure=FailurePolicy(backoff_seconds=600, max_backoff_seconds=600))
    async with bench(tmp_path, FAILS_AT_5, policy=slow) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        b.feed(good, records(0, 10))
        await until(lambda: bad.state is PartitionState.BACKOFF)
        b.feed(good, records(10, 90))
        await b.settled(good, 100)
        assert attempts_at(b, 5) == [1]
        assert not bad.is_stuck


async def test_later_records_of_a_run_are_at_their_first_attempt(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 100))
        await until(lambda: attempts_at(b, 5) == [1, 2])
        (tmp_path / "mended").touch()
        await b.settled(p, 100)
        assert all(attempts_at(b, offset) == [1] for offset in range(100) if offset != 5)
        assert order(b) == list(range(100))
        assert not p.failed_records


# ---- what survives


async def test_the_attempt_is_committed_before_the_record_is_delivered_again(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        journal = journal_of(b)
        journal.gate.clear()
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        await until(lambda: journal.persisted)
        b.feed(good, records(0, 200))
        await b.settled(good, 200)  # the backoff is long over
        assert journal.persisted == [Checkpoint(5, ((5, 1),))]
        assert attempts_at(b, 5) == [1]
        journal.gate.set()
        await until(lambda: bad.state is PartitionState.HALTED)
        await until(lambda: len(journal.persisted) == 3)
        assert [checkpoint.attempts for checkpoint in journal.persisted] == [((5, n),) for n in (1, 2, 3)]


async def test_a_commit_that_fails_is_tried_again_before_the_record_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_RETRY_SECONDS", 0.01)
    async with bench(tmp_path, FAILS_AT_5) as b:
        journal = journal_of(b)
        journal.is_away = True
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: len(journal.persisted) == 10)
        assert attempts_at(b, 5) == [1]
        journal.is_away = False
        await until(lambda: attempts_at(b, 5) == [1, 2, 3])


async def test_the_count_goes_on_in_the_next_assignment(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy(attempts=4)) as b:
        p = assign_from(b, Checkpoint(0, ((5, 2),)))
        b.feed(p, records(0, 10))
        await until(lambda: p.state is PartitionState.HALTED)
        assert attempts_at(b, 5) == [3, 4]
        assert order(b) == [0, 1, 2, 3, 4, 5]


async def test_a_halted_record_gets_exactly_one_more_delivery_in_each_new_assignment(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        p = assign_from(b, Checkpoint(5))
        for expected in ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]):
            b.feed(p, records(5, 10))
            await until(lambda p=p: p.state is PartitionState.HALTED)
            await b.dispatcher.revoke([p], 10)
            assert attempts_at(b, 5) == expected
            p = assign_from(b, p.checkpoint)
        (tmp_path / "mended").touch()
        b.feed(p, records(5, 10))
        await b.settled(p, 15)
        assert attempts_at(b, 5) == [1, 2, 3, 4, 5, 6]


async def test_a_record_that_waits_for_its_next_attempt_takes_its_count_along(tmp_path: Path) -> None:
    slow = replace(QUICK, failure=FailurePolicy(backoff_seconds=600, max_backoff_seconds=600))
    async with bench(tmp_path, FAILS_AT_5, policy=slow) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.state is PartitionState.BACKOFF)
        await b.dispatcher.revoke([p], 10)
        assert p.checkpoint == Checkpoint(5, ((5, 1),))


async def test_a_failure_while_the_partition_leaves_counts(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            wait_for("go")
            raise ValueError("late")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(b.lines)
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 20))
        await until(lambda: p.state is PartitionState.REVOKED)
        (tmp_path / "go").touch()
        await revoke
        assert p.checkpoint == Checkpoint(0, ((0, 1),))
        assert b.lines() == ["0"]


async def test_a_record_that_the_runtime_kills_loses_no_attempt_nor_do_those_behind(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.offset == 3 and not exists("go"):
                wait_for("never")
    """
    async with bench(tmp_path, handler) as b:
        p, _ = b.assign(("t", 0), ("t", 1))
        for number in range(3):
            b.feed(p, records(p.ledger.position, 50 - p.ledger.position))
            await until(lambda n=number: attempts_at(b, 3) == [1] * (n + 1))
            await b.dispatcher.revoke([p], 0)
            assert p.checkpoint == Checkpoint(3)
            p = assign_from(b, p.checkpoint)
        (tmp_path / "go").touch()
        b.feed(p, records(3, 50))
        await b.settled(p, 53)
        assert all(attempts_at(b, offset) == [1] for offset in range(4, 53))
        assert attempts_at(b, 3) == [1] * 4


# ---- by an operator's hand


async def test_retry_is_one_more_delivery_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.state is PartitionState.HALTED)
        assert b.dispatcher.act("retry", p) == "t/0: offset 5 is delivered once more"
        await until(lambda: attempts_at(b, 5) == [1, 2, 3, 4] and p.state is PartitionState.HALTED)
        (tmp_path / "mended").touch()
        b.dispatcher.act("retry", p)
        await b.settled(p, 10)
        assert order(b) == list(range(10))
        assert not p.is_stuck


async def test_skip_settles_the_halted_record_and_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.state is PartitionState.HALTED)
        assert b.dispatcher.act("skip", p) == "t/0: offset 5 is skipped"
        await b.settled(p, 10)
        assert attempts_at(b, 5) == [1, 2, 3]
        assert order(b) == list(range(10))
        assert p.checkpoint == Checkpoint(10)


async def test_a_dead_letter_that_cannot_be_written_may_be_skipped_or_retried(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter")) as b:
        journal = journal_of(b)
        journal.refusal = OSError("there is no dead-letter topic dlq")
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.is_stuck)
        b.dispatcher.act("retry", p)
        assert not p.is_stuck
        await until(lambda: attempts_at(b, 5) == [1, 2, 3, 4] and p.is_stuck)
        b.dispatcher.act("skip", p)
        await b.settled(p, 10)


async def test_good_records_before_one_that_cannot_be_read_are_not_what_skip_skips(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            wait_for("go")
    """
    async with bench(tmp_path, handler) as b:
        skipped: list[str] = []

        class Source(Journal):
            def skip_unreadable(self, partition: AssignedPartition) -> None:
                skipped.append(f"{partition} {partition.ledger.position}")
                partition.is_cut_off = False

        b.dispatcher.feed = Source()
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(b.lines)
        b.dispatcher.cut_off(p, "the record can't be decoded")
        assert p.waiting, "some are in the buffer still"
        assert p.stuck_at == 10
        assert b.dispatcher.act("skip", p) == "t/0: offset 10 is skipped"
        (tmp_path / "go").touch()
        await b.settled(p, 10)
        assert skipped == ["t/0 10"]
        assert order(b) == list(range(10))


# ---- after the last attempt


async def test_a_dead_letter_settles_its_record_only_once_it_is_confirmed(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter")) as b:
        journal = journal_of(b)
        bad, good = b.assign(("t", 0), ("t", 1))
        sent = [Record(n, b"\xff\x00", b"\x00key", (("h", b"\xfe"),)) for n in range(10)]
        b.feed(bad, sent)
        await until(lambda: attempts_at(b, 5) == [1, 2])
        journal.gate.clear()  # the commit before attempt 3 may wait; the letter does in any case
        await until(lambda: bad.state in (PartitionState.BACKOFF, PartitionState.WRITING_DEAD_LETTER))
        journal.gate.set()
        await b.settled(bad, 5)
        await until(lambda: journal.dead_letters)
        (letter,) = journal.dead_letters
        assert letter[0] is sent[5]
        assert "ValueError: no such customer" in letter[1]
        assert letter[2] == 3
        await b.settled(bad, 10)
        assert order(b) == list(range(10))
        assert not good.is_stuck


async def test_nothing_moves_while_a_dead_letter_is_being_written(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", attempts=1)) as b:
        journal = journal_of(b)
        journal.gate.clear()
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        await until(lambda: journal.dead_letters)
        b.feed(good, records(0, 100))
        await b.settled(good, 100)
        assert bad.ledger.committable == 5
        assert not bad.is_stuck, "a write takes its time: that is no trouble yet"
        journal.gate.set()
        await b.settled(bad, 10)
        assert len(journal.dead_letters) == 1


async def test_a_dead_letter_that_cannot_be_written_says_why_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter")) as b:
        journal = journal_of(b)
        journal.refusal = OSError("there is no dead-letter topic dlq")
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: len(journal.dead_letters) == 3)
        assert (p.ledger.committable, p.stuck_at) == (5, 5)
        assert "there is no dead-letter topic dlq" in p.problem
        assert "can't be written to dead-letter topic dlq" in caplog.text
        journal.refusal = None
        await b.settled(p, 10)
        assert p.problem == ""
        assert attempts_at(b, 5) == [1, 2, 3]


async def test_a_halted_partition_says_what_is_wrong_with_its_record(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.is_stuck)
        assert p.problem == "t/0 is halted at offset 5 after 3 attempts: ValueError: no such customer"
        b.dispatcher.act("skip", p)
        await b.settled(p, 10)
        assert p.problem == ""


async def test_skip_goes_on_behind_the_record(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("skip")) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await b.settled(p, 10)
        assert attempts_at(b, 5) == [1, 2, 3]
        assert order(b) == list(range(10))
        assert 'headrace_records_given_up_total{function="f",replica="",result="skipped"' in metrics(b)


def metrics(b: Bench) -> str:
    from prometheus_client import generate_latest

    return generate_latest(b.metrics.registry).decode()


# ---- explicit acks and failures


def acks(then: Then = "halt") -> DeliveryPolicy:
    return policy(then, ack_mode=AckMode.ENABLE)


async def test_a_record_that_was_acked_before_it_failed_is_not_tried_again(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.offset == 5:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
                raise ValueError("too late")
    """
    async with bench(tmp_path, handler, policy=acks(), static=True) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 50))
        await b.settled(p, 50)
        assert order(b) == list(range(50))
        assert attempts_at(b, 5) == [1]


@pytest.mark.parametrize(
    "hold", [PartitionState.BACKOFF, PartitionState.HALTED, PartitionState.WRITING_DEAD_LETTER]
)
async def test_a_failed_record_that_is_acked_elsewhere_is_not_tried_again(
    tmp_path: Path, hold: PartitionState
) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 1:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset("t", 0, 5))
            elif event.offset == 5:
                raise ValueError("never")
    """
    waits = FailurePolicy(60 if hold is PartitionState.BACKOFF else 1, 600, 600, dead_letter_topic="dlq")
    waits = replace(waits, max_attempts=4 if hold is PartitionState.BACKOFF else 1)
    waits = replace(waits, then="deadLetter" if hold is PartitionState.WRITING_DEAD_LETTER else "halt")
    async with bench(tmp_path, handler, policy=replace(acks(), failure=waits), static=True) as b:
        journal = journal_of(b)
        journal.refusal = OSError("away") if hold is PartitionState.WRITING_DEAD_LETTER else None
        bad, other = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 10))
        await until(lambda: bad.state is hold)
        b.feed(other, records(0, 1))
        await b.settled(bad, 10)
        assert attempts_at(b, 5) == [1]
        assert order(b) == list(range(10))


@pytest.mark.parametrize("is_too_large", [False, True])
async def test_an_ack_of_another_record_does_not_stir_the_failed_one(
    tmp_path: Path, is_too_large: bool
) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.shard_id} {event.offset} {event.attempt}")
            if event.shard_id == 1:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset("t", 0, 7))
            elif event.offset == 5:
                raise ValueError("never")
    """
    last = policy("deadLetter", attempts=1, ack_mode=AckMode.ENABLE, fetch_max_bytes=100)
    async with bench(tmp_path, handler, policy=last, static=True) as b:
        journal = journal_of(b)
        journal.gate.clear()
        bad, other = b.assign(("t", 0), ("t", 1))
        b.feed(bad, [Record(n, b"." * (101 if n == 5 and is_too_large else 1)) for n in range(10)])
        await until(lambda: journal.dead_letters)
        b.feed(other, records(0, 1))
        await b.settled(other, 1)
        await until(lambda: bad.ledger.is_settled(7))
        assert bad.state is PartitionState.WRITING_DEAD_LETTER
        journal.gate.set()
        await b.settled(bad, 10)
        assert len(journal.dead_letters) == 1
        assert order(b) == [n for n in range(10) if n != 7 and not (n == 5 and is_too_large)]


# ---- records that are too large


def sized(first: int, count: int, large: Collection[int]) -> list[Record]:
    return [Record(n, b"." * (101 if n in large else 10)) for n in range(first, first + count)]


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
        assert not p.failed_records


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
        await until(lambda: p.is_stuck)
        assert p.problem.startswith("t/0 is halted at offset 4: it has 101 bytes, more than fetchMax (100)")
        b.dispatcher.act("retry", p)
        assert p.stuck_at == 4
        b.dispatcher.act("skip", p)
        await until(lambda: p.is_stuck and p.stuck_at == 5)
        b.dispatcher.act("skip", p)
        await b.settled(p, 10)
        assert order(b) == [0, 1, 2, 3, 6, 7, 8, 9]


async def test_a_key_counts_for_fetch_max_and_exactly_as_much_is_fine(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("skip", fetch_max_bytes=100)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, [Record(0, b"." * 60, b"." * 40), Record(1, b"." * 60, b"." * 41), Record(2, None)])
        await b.settled(p, 3)
        assert order(b) == [0, 2]


# ---- workers that die of a record


@pytest.mark.parametrize(
    "dying",
    [
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGRTMIN + 2)",
        "__import__('ctypes').string_at(0)",
        "os.kill(os.getppid(), 0) or os.abort()",
    ],
)
async def test_a_record_that_ends_its_worker_ends_in_its_policy(
    tmp_path: Path, dying: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        def handler(context, event):
            write(f"{{event.shard_id}} {{event.offset}} {{event.attempt}}")
            if event.shard_id == 0 and event.offset in (5, 6, 7):
                {dying}
    """
    async with bench(tmp_path, handler, policy=policy("skip", attempts=2)) as b:
        bad, good = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 20))
        b.feed(good, records(0, 20))
        await b.settled(bad, 20)
        await b.settled(good, 20)
        assert order(b) == list(range(20))
        assert order(b, 1) == list(range(20))
        assert [attempts_at(b, offset) for offset in (4, 5, 6, 7, 8)] == [[1], [1, 2], [1, 2], [1, 2], [1]]
        assert len([line for line in b.lines() if line.startswith("1 ")]) == 20
        assert b.dispatcher.workers[0].restarts == 6
        assert "next try in" not in caplog.text, "a record's fault: the worker is replaced at once"


async def test_killed_from_outside_while_idle_blames_nobody(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: b.dispatcher.workers[0].restarts == 1)
        b.feed(p, records(2, 2))
        await b.settled(p, 4)
        assert all(attempts_at(b, offset) == [1] for offset in range(4))


async def test_the_wait_between_attempts_is_kept(tmp_path: Path) -> None:
    waits = replace(QUICK, failure=FailurePolicy(3, 0.3, 30))
    async with bench(tmp_path, FAILS_AT_5, policy=waits) as b:
        (p,) = b.assign(("t", 0))
        began = time.monotonic()
        b.feed(p, records(5, 1))
        await until(lambda: p.state is PartitionState.HALTED)
        assert time.monotonic() - began >= 0.75 * (0.3 + 0.6)
