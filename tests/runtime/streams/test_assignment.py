"""The life of an assignment: what is given, and given back, all of it or some. Real workers, no broker."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from worker_bench import QUICK, Bench, Record, bench, records, until

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy
from headrace.runtime.metrics.runtime_metrics import MetricRegistry, TriggerMetrics
from headrace.runtime.partitions.flow_control import MOST_OUT_OF_ORDER, StreamLimits, most_out_of_order
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, Encoded
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.record_buffer import DECODED_BYTES
from headrace.runtime.streams.assignment import Assignment
from headrace.runtime.streams.committer import Committer
from headrace.runtime.streams.offset_store import TextTooLongError
from headrace.runtime.streams.stream import StartOffsets
from headrace.runtime.wire.lease import now_ns
from headrace.runtime.wire.produce import DeliveryCallback, Message, Outgoing
from headrace.runtime.wire.records import WireRecord

SESSION = "12345678-1234-5678-1234-567812345678"
ONE, OTHER = PartitionKey("t", 0), PartitionKey("t", 1)
WAITS = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
        wait_for(f"go{event.shard_id}")
"""


class Memory:
    """A Stream and an OffsetStore: what is committed is kept, and answers wait while they are held."""

    max_text_chars = 4096
    max_request_chars = 1 << 16
    unanswered_at = -inf

    def __init__(self) -> None:
        self.generation: int | None = 1
        self.held: dict[PartitionKey, Checkpoint] = {}
        self.reads: list[set[PartitionKey]] = []
        self.may_read, self.may_write, self.writes = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_read.set()
        self.may_write.set()
        self.left: list[PartitionKey] = []
        self.ends: dict[PartitionKey, int] = {}
        self.leaderless: set[PartitionKey] = set()
        self.log_ids: dict[PartitionKey, str] = {}
        self.has_leaders = asyncio.Event()
        self.most_chars = self.max_text_chars
        self.is_made_anew = False

    async def read_starts(self, keys: Collection[PartitionKey]) -> StartOffsets:
        self.reads.append(set(keys))
        await self.may_read.wait()
        if self.leaderless.issuperset(keys):
            await self.has_leaders.wait()
            self.leaderless.clear()
        held = {} if self.is_made_anew else self.held
        starts = {key: held.get(key, Checkpoint(0)) for key in keys if key not in self.leaderless}
        committed = {key: held[key] for key in starts if key in held}
        return StartOffsets(starts, committed, {key: end for key, end in self.ends.items() if key in starts})

    async def position(self, key: PartitionKey) -> int:
        return 0

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Nothing is fetched by itself."""

    def log_id(self, key: PartitionKey) -> str:
        return self.log_ids.get(key, "")

    def on_room(self, partition: AssignedPartition) -> None:
        """As above."""

    def on_started(self) -> None:
        """Nobody asks."""

    def on_left(self, keys: Iterable[PartitionKey]) -> None:
        self.left += keys

    def end_of(self, key: PartitionKey) -> int:
        return 0

    async def write_dead_letter(
        self, partition: AssignedPartition, record: WireRecord, reason: str, attempts: int
    ) -> bool:
        raise AssertionError(reason)

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        raise AssertionError(message)

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        return CheckpointText(2, checkpoint).encode(max_chars)

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        self.writes.set()
        await self.may_write.wait()
        if max(len(text) for _, text in offsets.values()) > self.most_chars:
            raise TextTooLongError("too long")
        self.held |= {key: Checkpoint(offset) for key, (offset, _) in offsets.items()}
        return {}


@asynccontextmanager
async def assigned(
    folder: Path, handler: str, memory: Memory, policy: DeliveryPolicy = QUICK
) -> AsyncIterator[tuple[Bench, Assignment, asyncio.TaskGroup]]:
    async with bench(folder, handler, workers=2, static=True, policy=policy) as b:
        b.dispatcher.lease.renew(now_ns() + 10**12)  # as a heartbeat that was answered does
        assignment = Assignment(b.dispatcher, memory, StreamLimits(64, 0, "channelBufferSize", 1 << 20))
        assignment.committer = Committer(memory, TriggerMetrics(MetricRegistry(), "", "f", "memory", "t"))
        async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            yield b, assignment, tasks


async def test_what_is_given_back_leaves_the_others_alone(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await until(lambda: memory.held == {ONE: Checkpoint(0), OTHER: Checkpoint(0)})
        for partition in assignment.partitions.values():
            b.feed(partition, records(0, 2))
        await until(lambda: sorted(b.lines()) == ["0 0", "1 0"])
        kept = assignment.partitions[OTHER]
        await assignment.give_back(0, 0, [ONE])  # its worker is killed, amid its record
        assert (list(assignment.partitions), memory.left) == ([OTHER], [ONE])
        assert assignment.partitions[OTHER] is kept
        assert kept.lane.in_flight_count > 0
        (tmp_path / "go1").touch()
        await b.settled(kept, 2)
        assert await assignment.commit([kept])
        assert memory.held == {ONE: Checkpoint(0), OTHER: Checkpoint(2)}
        (tmp_path / "go0").touch()
        assignment.on_assigned([ONE], 1, tasks)  # it comes back, and the other stays what it is
        await until(lambda: len(assignment.partitions) == 2)
        assert assignment.partitions[OTHER] is kept
        b.feed(assignment.partitions[ONE], records(0, 2))
        await b.settled(assignment.partitions[ONE], 2)


async def test_what_leaves_while_starts_are_read_does_not_begin_and_the_rest_does(tmp_path: Path) -> None:
    memory = Memory()
    memory.may_read.clear()
    async with assigned(tmp_path, WAITS, memory) as (_, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await until(lambda: memory.reads == [{ONE, OTHER}])
        await assignment.give_back(0, 0, [ONE])
        memory.may_read.set()
        await until(lambda: list(assignment.partitions) == [OTHER])
        assert memory.reads[1:] == [{OTHER}]


async def test_what_has_begun_goes_on_when_another_leaves_amid_the_first_commit(tmp_path: Path) -> None:
    memory = Memory()
    memory.may_write.clear()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await memory.writes.wait()
        begun = assignment.partitions[OTHER]
        memory.may_write.set()
        await assignment.give_back(0, 0, [ONE])
        assert list(assignment.partitions.values()) == [begun] == list(b.dispatcher.partitions.values())
        assert memory.reads == [{ONE, OTHER}]


async def test_all_that_is_given_back_closes_the_gate_for_commits(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: memory.held == {ONE: Checkpoint(0)})
        partition = assignment.partitions[ONE]
        (tmp_path / "go0").touch()
        b.feed(partition, records(0, 3))
        await b.settled(partition, 3)
        await assignment.give_back(60, 0)
        assert memory.held == {ONE: Checkpoint(3)}
        assert not await assignment.commit([partition])
        assert b.dispatcher.partitions == {}


async def both_run(b: Bench, assignment: Assignment, memory: Memory) -> None:
    """ONE and OTHER, each in its first record of two, in a worker of its own."""
    await until(lambda: memory.held == {ONE: Checkpoint(0), OTHER: Checkpoint(0)})
    for partition in assignment.partitions.values():
        b.feed(partition, records(0, 2))
    await until(lambda: sorted(b.lines()) == ["0 0", "1 0"])


async def test_a_stop_takes_all_at_once_and_gives_no_more_time_to_what_leaves_already(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await both_run(b, assignment, memory)
        other = assignment.partitions[OTHER]
        leaving = tasks.create_task(assignment.give_back(600, 600, [ONE]))
        await until(lambda: memory.left == [ONE])
        stop = tasks.create_task(assignment.give_back(3, 0))  # in which a busy worker says what it gives back
        await until(lambda: other.lane.in_flight_count == 1)
        (tmp_path / "go1").touch()  # it ends its first record, and the second one isn't started
        await stop
        assert leaving.done()
        assert sorted(b.lines()) == ["0 0", "1 0"]
        assert memory.held == {ONE: Checkpoint(0), OTHER: Checkpoint(1)}


async def test_what_a_stop_gives_back_is_nobody_elses_before_it_has_ended(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await both_run(b, assignment, memory)
        partitions = list(assignment.partitions.values())
        stop = tasks.create_task(assignment.give_back(600, 0))
        await until(lambda: all(it.lane.in_flight_count == 1 for it in partitions))
        revoked = tasks.create_task(assignment.give_back(0, 0, [ONE]))
        (tmp_path / "go1").touch()
        await until(lambda: not b.dispatcher.workers[1].in_flight.runs)
        assert not revoked.done()
        (tmp_path / "go0").touch()
        await revoked
        assert stop.done()
        assert memory.held == {ONE: Checkpoint(1), OTHER: Checkpoint(1)}


async def test_a_stop_ends_the_wait_for_late_acks_of_what_leaves_already(tmp_path: Path) -> None:
    memory = Memory()
    handler = """
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
    """
    explicit = replace(QUICK, ack_mode=AckMode.EXPLICIT_ONLY)
    async with assigned(tmp_path, handler, memory, explicit) as (b, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: ONE in memory.held)
        b.feed(assignment.partitions[ONE], records(0, 1))
        await until(lambda: b.lines() == ["0 0"])
        leaving = tasks.create_task(assignment.give_back(60, 600, [ONE]))
        await until(lambda: not assignment.partitions)
        await assignment.give_back(0, 0)
        await leaving
        assert memory.held == {ONE: Checkpoint(0)}


async def test_what_leaves_does_not_wait_for_what_left_before(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await both_run(b, assignment, memory)
        slow = tasks.create_task(assignment.give_back(600, 0, [ONE]))
        await until(lambda: memory.left == [ONE])
        quick = tasks.create_task(assignment.give_back(600, 0, [OTHER]))
        await until(lambda: memory.left == [ONE, OTHER])
        (tmp_path / "go1").touch()
        await quick
        assert not slow.done()
        assert b.dispatcher.lease.left_seconds < 2000, "one of them still runs"
        (tmp_path / "go0").touch()
        await slow
        assert b.dispatcher.lease.left_seconds > 10**9


async def test_what_is_started_anew_is_read_again_and_may_leave_before_that(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await both_run(b, assignment, memory)
        kept = assignment.partitions[OTHER]
        memory.may_read.clear()
        await assignment.start_anew([ONE], 0)
        await until(lambda: memory.reads[1:] == [{ONE}])
        assert list(assignment.partitions) == [OTHER]
        await assignment.give_back(0, 0, [ONE])
        memory.may_read.set()
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: len(assignment.partitions) == 2)
        assert assignment.partitions[OTHER] is kept
        assert memory.reads[1:] == [{ONE}, {ONE}]
        for name in ("go0", "go1"):
            (tmp_path / name).touch()


WAITS_FOR_EACH = """
    def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
        wait_for(f"go{event.offset}")
"""


async def two_of_three(b: Bench, assignment: Assignment, memory: Memory) -> AssignedPartition:
    """ONE, of which two records are handled and not committed, while the third one is being handled."""
    await until(lambda: ONE in memory.held)
    partition = assignment.partitions[ONE]
    for number in range(2):
        (b.folder / f"go{number}").touch()
    b.feed(partition, records(0, 3))
    await b.settled(partition, 2)
    await until(lambda: b.lines() == ["0 0", "0 1", "0 2"])
    return partition


async def test_nothing_of_a_log_that_is_being_replaced_is_committed(tmp_path: Path) -> None:
    memory = Memory()
    memory.ends = {ONE: 3}
    async with assigned(tmp_path, WAITS_FOR_EACH, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        before = await two_of_three(b, assignment, memory)
        assert assignment.end_of(before) == 3
        restart = tasks.create_task(assignment.restart({ONE: Checkpoint(0)}, 60))
        await until(lambda: memory.left == [ONE])
        assert await assignment.commit([before]), "there is nothing to say"
        assert not restart.done()
        (tmp_path / "go2").touch()
        await restart
        assert memory.held == {ONE: Checkpoint(0)}
        after = assignment.partitions[ONE]
        assert assignment.end_of(after) == 0, "that was the other log's"
        b.feed(after, records(0, 1))
        await b.settled(after, 1)
        assert await assignment.commit([before, after])
        assert memory.held == {ONE: Checkpoint(1)}


async def test_a_log_is_told_from_the_one_before_by_its_id_and_by_where_it_was_cut(tmp_path: Path) -> None:
    memory = Memory()

    def stamp() -> str:
        return assignment.partitions[ONE].log.stamp

    async with assigned(tmp_path, "def handler(context, event): pass", memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: ONE in assignment.partitions)
        assert stamp() == ":0", "its source hasn't said which it is"
        memory.log_ids[ONE] = "a"
        for start, then in ((5, "a:0"), (2, "a:1")):
            b.feed(assignment.partitions[ONE], records(assignment.partitions[ONE].ledger.position, 5))
            await assignment.restart({ONE: Checkpoint(start)}, 60)
            assert stamp() == then, "what nobody had here isn't cut"
        assert not assignment.partitions[ONE].log.has(":0", 2)
        assert assignment.partitions[ONE].log.has(":0", 1)
        memory.log_ids[ONE] = "b"
        await assignment.start_anew([ONE], 60)
        await until(lambda: ONE in assignment.partitions and stamp() == "b:0")
        b.feed(assignment.partitions[ONE], records(0, 5))
        restart = assignment.restart({ONE: Checkpoint(0)}, 60)
        await asyncio.gather(restart, assignment.give_back(60, 0))
        assignment.on_assigned([ONE], 2, tasks)
        await until(lambda: ONE in assignment.partitions)
        assert stamp() == "b:1", "also where it had left before it could go on"


async def test_nor_where_it_is_given_back_amid_that(tmp_path: Path) -> None:
    memory = Memory()
    async with assigned(tmp_path, WAITS_FOR_EACH, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await two_of_three(b, assignment, memory)
        restart = tasks.create_task(assignment.restart({ONE: Checkpoint(0)}, 60))
        await until(lambda: memory.left == [ONE])
        gone = tasks.create_task(assignment.give_back(60, 0))
        await until(lambda: not assignment.partitions)
        (tmp_path / "go2").touch()
        await gone
        await restart
        assert memory.held == {ONE: Checkpoint(0)}
        assert not assignment.partitions


async def test_what_has_no_leader_yet_begins_later_and_holds_up_no_other(tmp_path: Path) -> None:
    memory = Memory()
    memory.leaderless = {ONE}
    async with assigned(tmp_path, WAITS, memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await until(lambda: memory.reads == [{ONE, OTHER}, {ONE}])
        (begun,) = assignment.partitions.values()
        assert begun.key == OTHER
        assert assignment.problems() == ["t/0: where to start can't be read yet"]
        (tmp_path / "go1").touch()
        b.feed(begun, records(0, 2))
        await b.settled(begun, 2)
        worker = b.dispatcher.worker_of(OTHER)
        memory.has_leaders.set()
        await until(lambda: len(assignment.partitions) == 2)
        assert assignment.partitions[OTHER] is begun
        assert b.dispatcher.worker_of(OTHER) == worker == 1
        assert assignment.problems() == []


async def test_what_has_no_leader_yet_may_leave_before_it_begins(tmp_path: Path) -> None:
    memory = Memory()
    memory.leaderless = {ONE}
    async with assigned(tmp_path, WAITS, memory) as (_, assignment, tasks):
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await until(lambda: memory.reads == [{ONE, OTHER}, {ONE}])
        await assignment.give_back(0, 0, [ONE])
        assert list(assignment.partitions) == [OTHER]
        assert assignment.problems() == []


@pytest.mark.parametrize(
    ("batch", "left"),
    [
        (BatchPolicy(3, 1), PlannedBatches(0, 3, SESSION, ((200_000, 200_003),))),
        (None, PlannedBatches(0, 0, SESSION)),
    ],
)
async def test_of_a_plan_only_what_is_too_long_to_be_held_is_dropped(
    batch: BatchPolicy | None, left: PlannedBatches, tmp_path: Path
) -> None:
    memory = Memory()
    memory.held[ONE] = Checkpoint(0, plan=PlannedBatches(0, 3, SESSION, ((3, 200_000), (200_000, 200_003))))
    async with assigned(tmp_path, WAITS, memory, replace(QUICK, batch=batch)) as (_, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: ONE in assignment.partitions)
        assert assignment.partitions[ONE].plan.planned == left


async def test_what_has_no_leader_yet_has_its_share_of_the_bytes(tmp_path: Path) -> None:
    memory = Memory()
    memory.leaderless = {ONE}
    async with assigned(tmp_path, WAITS, memory) as (_, assignment, tasks):
        assignment.are_chunks = True
        assignment.on_assigned([ONE, OTHER], 1, tasks)
        await until(lambda: memory.reads == [{ONE, OTHER}, {ONE}])
        (begun,) = assignment.partitions.values()
        assignment.add(begun, [Record(0, bytes(1 << 13))])
        alone_among_two = begun.limit.waiting
        memory.has_leaders.set()
        await until(lambda: len(assignment.partitions) == 2)
        assignment.add(begun, [Record(1, bytes(1 << 13))])
        assert begun.limit.waiting == alone_among_two == (1 << 17) // ((1 << 13) + DECODED_BYTES)
        for name in ("go0", "go1"):
            (tmp_path / name).touch()


async def test_what_a_commit_has_room_for_is_found_out_before_records_overtake_each_other(
    tmp_path: Path,
) -> None:
    memory = Memory()
    memory.most_chars = 512
    async with assigned(tmp_path, WAITS, memory, replace(QUICK, ordering="key")) as (_, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: memory.held)
        await until(lambda: assignment.partitions[ONE].limit.out_of_order == most_out_of_order(511))
        assert assignment.bounds.out_of_order < MOST_OUT_OF_ORDER


async def test_a_commit_that_is_on_its_way_says_nothing_of_the_log_that_is_made_anew_meanwhile(
    tmp_path: Path,
) -> None:
    memory = Memory()
    async with assigned(tmp_path, "def handler(context, event): pass", memory) as (b, assignment, tasks):
        assignment.on_assigned([ONE], 1, tasks)
        await until(lambda: memory.held == {ONE: Checkpoint(0)})
        old = assignment.partitions[ONE]
        b.feed(old, records(0, 3))
        await b.settled(old, 3)
        memory.may_write.clear()
        memory.writes.clear()
        commit = asyncio.create_task(assignment.commit([old]))
        await memory.writes.wait()
        memory.is_made_anew = True
        anew = asyncio.create_task(assignment.start_anew([ONE], 0))
        await until(lambda: old.is_replaced)
        asyncio.get_running_loop().call_later(0.05, memory.may_write.set)
        await asyncio.gather(commit, anew)
        await until(lambda: assignment.partitions.get(ONE) not in {None, old})
        await until(lambda: memory.held == {ONE: Checkpoint(0)})
