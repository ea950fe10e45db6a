"""What comes after a record's last attempt, by its policy or by an operator's hand."""

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest
from failure_bench import FAILS_AT_5, Journal, assign_from, attempts_at, journal_of, order, policy
from worker_bench import Bench, Record, bench, records, until

from headrace.runtime.config.delivery_policy import Then
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import handler_reason, is_stuck, open_problem, problem, stuck_at


async def test_retry_is_one_more_delivery_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.lane.state is PartitionState.HALTED)
        assert b.dispatcher.act("retry", p) == "t/0: offset 5 is delivered once more"
        await until(lambda: attempts_at(b, 5) == [1, 2, 3, 4] and p.lane.state is PartitionState.HALTED)
        (tmp_path / "mended").touch()
        b.dispatcher.act("retry", p)
        await b.settled(p, 10)
        assert order(b) == list(range(10))
        assert not is_stuck(p)


async def test_skip_settles_the_halted_record_and_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: p.lane.state is PartitionState.HALTED)
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
        await until(lambda: is_stuck(p))
        b.dispatcher.act("retry", p)
        assert not is_stuck(p)
        await until(lambda: attempts_at(b, 5) == [1, 2, 3, 4] and is_stuck(p))
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
                partition.why_cut_off = ""

        b.dispatcher.connect(Source())
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(b.lines)
        b.dispatcher.cut_off(p, "the record can't be decoded")
        assert p.lane.buffer.count, "some are in the buffer still"
        assert stuck_at(p) == 10
        assert b.dispatcher.act("skip", p) == "t/0: offset 10 is skipped"
        (tmp_path / "go").touch()
        await b.settled(p, 10)
        assert skipped == ["t/0 10"]
        assert order(b) == list(range(10))


async def test_a_dead_letter_settles_its_record_only_once_it_is_confirmed(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter")) as b:
        journal = journal_of(b)
        bad, good = b.assign(("t", 0), ("t", 1))
        sent = [Record(n, b"\xff\x00", b"\x00key", (("h", b"\xfe"),)) for n in range(10)]
        b.feed(bad, sent)
        await until(lambda: attempts_at(b, 5) == [1, 2])
        journal.gate.clear()  # the commit before attempt 3 may wait; the letter does in any case
        await until(lambda: bad.lane.state in (PartitionState.BACKOFF, PartitionState.WRITING_DEAD_LETTER))
        journal.gate.set()
        await b.settled(bad, 5)
        await until(lambda: journal.dead_letters)
        (letter,) = journal.dead_letters
        assert letter[0] is sent[5]
        assert "ValueError: no such customer" in letter[1]
        assert letter[2] == 3
        await b.settled(bad, 10)
        assert order(b) == list(range(10))
        assert not is_stuck(good)


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
        assert not is_stuck(bad), "a write takes its time: that is no trouble yet"
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
        assert (p.ledger.committable, stuck_at(p)) == (5, 5)
        assert "there is no dead-letter topic dlq" in problem(p)
        assert "can't be written to dead-letter topic dlq" in caplog.text
        journal.refusal = None
        await b.settled(p, 10)
        assert problem(p) == ""
        assert attempts_at(b, 5) == [1, 2, 3]


async def test_the_traceback_of_a_record_is_printed_once_and_then_a_line_for_each_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", attempts=3)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await b.settled(p, 10)
    failures = [it for it in caplog.records if "failed at attempt" in it.getMessage()]
    tracebacks = [it.__dict__["error"] for it in failures]
    assert tracebacks[0].startswith("Traceback (most recent call last)")
    assert tracebacks[1:] == ["", ""]
    assert [it.__dict__["fields"] for it in failures] == [
        {"topic": "t", "partition": 0, "offset": 5, "attempt": attempt, "exception": "ValueError"}
        for attempt in (1, 2, 3)
    ]
    (last,) = [it.__dict__["fields"] for it in caplog.records if "is now a dead letter" in it.getMessage()]
    assert (last["offset"], last["attempt"], last["exception"]) == (5, 3, "ValueError")
    told = [it.getMessage() for it in caplog.records if "failed at attempt" in it.getMessage()]
    why = "ValueError: no such customer"
    assert told == [
        f"t/0 offset 5 failed at attempt 1 of 3; it stays uncommitted, to be tried again: {why}",
        f"t/0 offset 5 failed at attempt 2 of 3; it stays uncommitted, to be tried again: {why}",
        f"t/0 offset 5 failed at attempt 3 of 3; it stays uncommitted, to become a dead letter: {why}",
    ]


async def test_a_failure_elsewhere_of_the_same_record_is_printed_as_a_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def handler(context, event):
            if event.attempt < 3:
                raise ValueError(f"no such customer at {time.time_ns()}")  # each time another message
            raise ValueError("no such order")
    """
    async with bench(tmp_path, handler, policy=policy("skip", attempts=4)) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
    errors = [it.__dict__["error"] for it in caplog.records if "failed at attempt" in it.getMessage()]
    assert [bool(error) for error in errors] == [True, False, True, False]
    assert (
        "failed at attempt 4 of 4; it stays uncommitted, and is skipped: ValueError: no such order"
        in caplog.text
    )


async def test_a_revoke_waits_for_the_dead_letter_that_is_being_written(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", attempts=1)) as b:
        journal = journal_of(b)
        journal.gate.clear()
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: journal.dead_letters)
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 600))
        await until(lambda: p.lane.state is PartitionState.REVOKED)
        assert not revoke.done()
        journal.gate.set()
        await revoke
        assert p.checkpoint == Checkpoint(6)
        p = assign_from(b, p.checkpoint)
        b.feed(p, records(6, 4))
        await b.settled(p, 10)
        assert len(journal.dead_letters) == 1
        assert attempts_at(b, 5) == [1]


@pytest.mark.parametrize("is_shortened", [False, True], ids=["its time", "a shorter time"])
async def test_a_revoke_waits_for_a_dead_letter_as_long_as_for_a_handler(
    tmp_path: Path, is_shortened: bool
) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", attempts=1)) as b:
        journal = journal_of(b)
        journal.gate.clear()
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: journal.dead_letters)
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 600 if is_shortened else 0.05))
        await until(lambda: p.lane.state is PartitionState.REVOKED)
        with b.dispatcher.hurry(0, 0) if is_shortened else nullcontext():
            await revoke
        journal.gate.set()
        assert p.checkpoint == Checkpoint(5, ((5, 6, 1),))


async def test_a_dead_letter_that_fails_is_not_tried_again_by_who_gives_it_back(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", attempts=1)) as b:
        journal = journal_of(b)
        journal.gate.clear()
        journal.refusal = OSError("there is no dead-letter topic dlq")
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: journal.dead_letters)
        revoke = asyncio.create_task(b.dispatcher.revoke([p], 600))
        await until(lambda: p.lane.state is PartitionState.REVOKED)
        journal.gate.set()
        await revoke
        assert p.checkpoint == Checkpoint(5, ((5, 6, 1),))
        assert len(journal.dead_letters) == 1


@pytest.mark.parametrize("then", ["deadLetter", "skip"])
async def test_what_had_all_its_attempts_under_an_earlier_owner_is_not_delivered_once_more(
    tmp_path: Path, then: Then
) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy(then, attempts=2)) as b:
        journal = journal_of(b)
        p = assign_from(b, Checkpoint(3, ((5, 6, 2),)))
        b.feed(p, records(3, 7))
        await b.settled(p, 10)
        assert order(b) == [3, 4, 6, 7, 8, 9]
        assert [(letter[0].offset, letter[2]) for letter in journal.dead_letters] == [(5, 2)] * (
            then == "deadLetter"
        )


async def test_an_operator_may_have_such_a_record_delivered_once_more(tmp_path: Path) -> None:
    (tmp_path / "mended").touch()
    async with bench(tmp_path, FAILS_AT_5, policy=policy("deadLetter", attempts=2)) as b:
        journal = journal_of(b)
        journal.refusal = OSError("there is no dead-letter topic dlq")
        p = assign_from(b, Checkpoint(3, ((5, 6, 2),)))
        b.feed(p, records(3, 7))
        await until(lambda: is_stuck(p))
        assert b.dispatcher.act("retry", p) == "t/0: offset 5 is delivered once more"
        await b.settled(p, 10)
        assert attempts_at(b, 5) == [3]


async def test_a_halted_partition_says_what_is_wrong_with_its_record(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: is_stuck(p))
        assert problem(p) == "t/0 is halted at offset 5 after 3 attempts: ValueError: no such customer"
        assert open_problem(p) == "t/0 is halted at offset 5 after 3 attempts"
        assert handler_reason(p) == "ValueError: no such customer"
        b.dispatcher.act("skip", p)
        await b.settled(p, 10)
        assert problem(p) == ""


async def test_skip_goes_on_behind_the_record(tmp_path: Path) -> None:
    async with bench(tmp_path, FAILS_AT_5, policy=policy("skip")) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await b.settled(p, 10)
        assert attempts_at(b, 5) == [1, 2, 3]
        assert order(b) == list(range(10))
        (skipped,) = [
            line for line in metrics(b).splitlines() if "given_up_total{" in line and '"skipped"' in line
        ]
        assert skipped.endswith(" 1.0")


def metrics(b: Bench) -> str:
    from prometheus_client import generate_latest

    return generate_latest(b.metrics.registry).decode()
