"""Acks of a log that was made anew or cut: its offsets are other records' by now."""

from pathlib import Path

import pytest
from ack_bench import CUMULATIVE, ONLY, Ends, handled
from worker_bench import Bench, bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records

KEY = PartitionKey("t", 0)
OLD, NEW = PartitionLog("old"), PartitionLog("new")
REFUSED = "made anew or cut since"

# It keeps each event as it came first, and acks what a test writes into the file `todo`.
KEEPS = """
import nuclio_sdk, pickle
events = {}

def named(how, text):
    if how == "pickle":
        return pickle.loads(bytes.fromhex(text))
    if how == "numbers":
        return nuclio_sdk.QualifiedOffset("t", 0, int(text))
    event = events[int(text)]
    return event if how == "event" else nuclio_sdk.QualifiedOffset.from_event(event)

async def obey(context):
    done = 0
    while True:
        for line in (FOLDER / "todo").read_text().splitlines()[done:] if exists("todo") else []:
            verb, how, text = line.split()
            write(await getattr(context.platform, verb)(named(how, text)), "done")
            done += 1
        await asyncio.sleep(0.002)

async def init_context(context):
    context.user_data.obeying = asyncio.create_task(obey(context))

async def handler(context, event):
    event = events.setdefault(event.offset, event)
    write(pickle.dumps(nuclio_sdk.QualifiedOffset.from_event(event)).hex())
"""


def begin(b: Bench, log: PartitionLog, before: AssignedPartition | None = None) -> AssignedPartition:
    """The partition, from its beginning; in place of one that was dropped."""
    partition = of_records(KEY, Checkpoint(0), 256, log=log)
    if before is None:
        b.dispatcher.begin([partition])
    else:
        b.dispatcher.restart(partition)
    return partition


async def kept(b: Bench, log: PartitionLog) -> AssignedPartition:
    """Ten records of that log were handled, and the partition is dropped."""
    partition = begin(b, log)
    b.feed(partition, records(0, 10))
    await handled(b, 10)
    await b.dispatcher.revoke([partition], 60)
    return partition


async def say(b: Bench, *todo: str) -> list[str]:
    """Have the worker ack so, and the processor read it; what the calls returned."""
    before = len(b.lines("done"))
    with (b.folder / "todo").open("a") as file:
        file.writelines(f"{line}\n" for line in todo)
    await until(lambda: len(b.lines("done")) == before + len(todo))
    b.dispatcher.sync_progress()
    return b.lines("done")[before:]


@pytest.mark.full_but("explicit_ack-event", "explicit_ack_through-pickle", "explicit_nack-event")
@pytest.mark.parametrize("how", ["offset", "event", "pickle"])
@pytest.mark.parametrize("verb", ["explicit_ack", "explicit_ack_through", "explicit_nack"])
async def test_what_is_said_of_a_record_counts_for_no_other_that_has_its_offset_now(
    tmp_path: Path, how: str, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, KEEPS, static=True, policy=ONLY) as b:
        old = await kept(b, OLD)
        names = b.lines() if how == "pickle" else [str(offset) for offset in range(10)]
        new = begin(b, NEW, old)
        b.feed(new, records(0, 10))
        await handled(b, 20)
        assert await say(b, *(f"{verb} {how} {name}" for name in names)) == ["False"] * 10
        assert (new.checkpoint, set(new.awaiting_ack), dict(new.failed)) == (Checkpoint(0), {*range(10)}, {})
        # Numbers alone are those of the record that was handled last under them.
        assert await say(b, *(f"explicit_ack numbers {offset}" for offset in range(10))) == ["True"] * 10
        assert new.checkpoint == Checkpoint(10)
    assert caplog.text.count(REFUSED) == 1


async def test_an_ack_counts_in_each_assignment_of_its_log(tmp_path: Path) -> None:
    async with bench(tmp_path, KEEPS, static=True, policy=ONLY) as b:
        old = await kept(b, OLD)
        same = begin(b, PartitionLog("old"), old)
        b.dispatcher.connect(Ends(10))
        picked = b.lines()[3]
        said = ["explicit_ack offset 1", "explicit_ack event 2", f"explicit_ack pickle {picked}"]
        assert await say(b, *said, "explicit_ack numbers 4") == ["True"] * 4
        assert same.checkpoint == Checkpoint(0, acked=((1, 5),))


async def test_numbers_that_were_handled_in_the_log_before_alone_are_of_that(tmp_path: Path) -> None:
    async with bench(tmp_path, KEEPS, static=True, policy=ONLY) as b:
        old = await kept(b, OLD)
        new = begin(b, NEW, old)
        b.dispatcher.connect(Ends(20))
        b.feed(new, records(0, 1))
        await handled(b, 11)  # the worker knows of the new log by now
        said = [f"explicit_ack numbers {offset}" for offset in (9, 3, 15)]
        assert await say(b, *said) == ["False", "False", "True"]
        assert new.checkpoint == Checkpoint(0, acked=((15, 16),))


@pytest.mark.parametrize(("log", "acked"), [(OLD, ((1, 2), (4, 5))), (NEW, ())], ids=["same", "another"])
async def test_acks_that_wait_for_a_start_are_judged_by_what_begins(
    tmp_path: Path, log: PartitionLog, acked: tuple[tuple[int, int], ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, KEEPS, static=True, policy=ONLY) as b:
        old = await kept(b, OLD)
        b.dispatcher.connect(Ends(10))
        assert await say(b, "explicit_ack offset 1", "explicit_ack numbers 4") == ["True"] * 2
        assert begin(b, log, old).checkpoint == Checkpoint(0, acked=acked)
    assert caplog.text.count(REFUSED) == (log is NEW)


@pytest.mark.parametrize("policy", [ONLY, CUMULATIVE], ids=["individual", "cumulative"])
async def test_acks_below_a_cut_count_and_those_above_do_not(tmp_path: Path, policy: DeliveryPolicy) -> None:
    async with bench(tmp_path, KEEPS, static=True, policy=policy) as b:
        old = await kept(b, OLD)
        cut = begin(b, OLD.cut(5), old)
        b.feed(cut, records(0, 10))
        await handled(b, 20)
        assert await say(b, *(f"explicit_ack offset {offset}" for offset in range(10))) == ["True"] * 10
        assert cut.checkpoint == Checkpoint(5)
        assert await say(b, *(f"explicit_ack pickle {name}" for name in b.lines()[5:10])) == ["True"] * 5
        assert cut.checkpoint == Checkpoint(5)


async def test_a_record_that_runs_is_not_settled_by_one_that_had_its_offset(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        held = {}
        async def handler(context, event):
            first = held.setdefault(event.offset, nuclio_sdk.QualifiedOffset.from_event(event))
            write(await context.platform.explicit_ack(first))
    """
    async with bench(tmp_path, handler, static=True, policy=ONLY) as b:
        old = begin(b, OLD)
        b.feed(old, records(0, 10))
        await b.settled(old, 10)
        await b.dispatcher.revoke([old], 60)
        new = begin(b, NEW, old)
        b.feed(new, records(0, 10))
        await handled(b, 20)
        assert b.lines() == ["True"] * 10 + ["False"] * 10
        assert new.checkpoint == Checkpoint(0)


async def test_another_triggers_worker_acks_by_the_log_that_its_offset_is_of(tmp_path: Path) -> None:
    router = AckRouter()
    async with (
        bench(tmp_path / "one", KEEPS, static=True, policy=ONLY, router=router) as one,
        bench(tmp_path / "two", KEEPS, static=True, policy=ONLY, router=router) as two,
    ):
        old = await kept(one, OLD)
        first_of_old = one.lines()[0]
        new = begin(one, NEW, old)
        one.feed(new, records(0, 10))
        await handled(one, 20)
        while await say(two, f"explicit_ack pickle {first_of_old}") != ["False"]:
            pass  # its worker hasn't been told of the new log yet
        assert await say(two, "explicit_ack numbers 7") == ["True"]
        assert new.checkpoint == Checkpoint(0, acked=((7, 8),))
