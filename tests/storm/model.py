"""`make storm`: the delivery model with many seeds. What becomes of every record, whatever fails in between.

Real ledgers, acks, commits and assignments; no processes, and no broker but a model of one.

usage: model.py [--count SEEDS] [--seed N]
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError, RequestTimedOutError
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from worker_bench import Record

from headrace.runtime.config.delivery import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.acks.owned import Acks
from headrace.runtime.metrics import Metrics, TriggerMetrics
from headrace.runtime.partitions.assigned import AssignedPartition, of_records
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.checkpoint_text import decode_text
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.streams.committer import Committer
from headrace.runtime.wire.frames import Ack
from headrace.triggers.kafka.group_offsets import GroupOffsets
from headrace.triggers.kafka.start import GroupTopics

PARTITIONS = 3
REPLICAS = 3
CAPACITY = 16
MAX_ATTEMPTS = 3

replicas = st.integers(0, REPLICAS - 1)
numbers = st.integers(0, PARTITIONS - 1)
# What becomes of a request: it arrives, it doesn't, or it does and its answer is lost.
fates = st.sampled_from(["ok", "ok", "ok", "request lost", "answer lost"])


class Group:
    """What the broker knows: the log of each partition, the group's commits, who is in it."""

    def __init__(self) -> None:
        self.offsets: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.ends = [0] * PARTITIONS
        self.commits: dict[int, Checkpoint] = {}
        self.generation = 0
        self.members: set[int] = set()

    def commit(self, member: int, generation: int, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        """Refuses whoever isn't in the current generation. L6: a commit never moves back."""
        if generation != self.generation or member not in self.members:
            raise CommitFailedError
        for tp, (offset, text) in offsets.items():
            metadata = decode_text(offset, text)
            assert metadata is not None, text
            assert offset >= self.commits.get(tp.partition, Checkpoint(0)).offset, "L6: a commit moved back"
            self.commits[tp.partition] = metadata.checkpoint


class Client:
    """What a committer sees of a consumer."""

    def __init__(self, group: Group, member: int) -> None:
        self._group = group
        self._member = member
        self._coordinator = SimpleNamespace(generation=-1)
        self.fate = "ok"

    @property
    def generation(self) -> int:
        generation: int = self._coordinator.generation
        return generation

    @generation.setter
    def generation(self, generation: int) -> None:
        self._coordinator.generation = generation

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        if self.fate == "request lost":
            raise RequestTimedOutError
        self._group.commit(self._member, self.generation, offsets)
        if self.fate == "answer lost":
            raise RequestTimedOutError


class Replica:
    """A processor without processes: its partitions, and what its workers hold of each."""

    def __init__(self, group: Group, member: int, policy: DeliveryPolicy) -> None:
        metrics = TriggerMetrics(Metrics(), "", "f", "kafka-cluster", "t")
        self.client = Client(group, member)
        self.offsets = GroupOffsets(self.client)
        self.offsets.topics = GroupTopics(first_partition_counts={"t": PARTITIONS})
        self.committer = Committer(self.offsets, metrics)
        self.acks = Acks(policy, metrics, lambda p: group.ends[p.key.partition])
        self.early: list[Ack] = []
        self.starting: list[int] = []
        self.partitions: dict[int, AssignedPartition] = {}
        self.in_flight: dict[int, list[Record]] = {}
        self.handled: set[tuple[int, int]] = set()
        self.failures: dict[tuple[int, int], int] = {}  # in the present assignment
        self.is_frozen = False


class DeliveryModel(RuleBasedStateMachine):
    """`done`: handled or acked under whoever owned the partition then, or given up. The rest is owed."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.group = Group()
        self.done: set[tuple[int, int]] = set()
        self.failures: dict[tuple[int, int], int] = {}
        self.may_repeat: set[tuple[int, int]] = set()
        self.is_clean = dict.fromkeys(range(PARTITIONS), True)

    @initialize(mode=st.sampled_from([AckMode.DISABLE, AckMode.EXPLICIT_ONLY]), cumulative=st.booleans())
    def start(self, mode: AckMode, cumulative: bool) -> None:
        self.policy = DeliveryPolicy(
            ack_mode=mode,
            explicit_ack_semantics="cumulative" if cumulative and mode.is_explicit else "individual",
        )
        self.replicas = [Replica(self.group, number, self.policy) for number in range(REPLICAS)]
        self.rebalance(random.Random(0), {*range(REPLICAS)}, "ok", True)

    # ---- records

    @rule(number=numbers, count=st.integers(1, 10), gap=st.integers(0, 2))
    def produce(self, number: int, count: int, gap: int) -> None:
        first = self.group.ends[number] + gap
        self.group.offsets[number] += range(first, first + count)
        self.group.ends[number] = first + count

    @rule(number=numbers)
    def end_a_transaction(self, number: int) -> None:
        self.group.ends[number] += 1

    @rule(number=numbers)
    def fetch(self, number: int) -> None:
        if (replica := self._owner(number)) is None:
            return
        partition = replica.partitions[number]
        position = partition.ledger.position
        waiting = [offset for offset in self.group.offsets[number] if offset >= position]
        if found := waiting[: partition.room]:
            partition.on_fetched([Record(offset) for offset in found])
        if not waiting and partition.lane.is_idle:
            partition.ledger.advance(self.group.ends[number])

    @rule(number=numbers, count=st.integers(1, 6))
    def hand_out(self, number: int, count: int) -> None:
        self.fetch(number)
        if (replica := self._owner(number)) is None or not replica.partitions[number].lane.is_deliverable:
            return
        for record in replica.partitions[number].lane.take(count, 1 << 20):
            self._check_delivery(replica, number, record.offset)
            replica.in_flight[number].append(Record(record.offset))

    def _check_delivery(self, replica: Replica, number: int, offset: int) -> None:
        it = (number, offset)
        assert it not in self.done or it in self.may_repeat, f"L2: {it} is done, and delivered again"
        assert it not in replica.handled, f"L2: {it} is delivered twice in one assignment"
        flight = {record.offset for record in replica.in_flight[number]}
        for lower in self.group.offsets[number]:
            if lower < offset:
                before = (number, lower)
                is_past = before in self.done | replica.handled or lower in flight
                assert is_past, f"L3: {it} is delivered before {before}"
        attempt = replica.partitions[number].failed.attempt(offset)
        assert attempt <= self.failures.get(it, 0) + 1, "an attempt too many"
        assert attempt > replica.failures.get(it, 0), "an attempt too few"

    @rule(number=numbers, count=st.integers(1, 6))
    def finish(self, number: int, count: int) -> None:
        if (replica := self._owner(number)) is not None:
            self._finish(replica, number, count)

    def _finish(self, replica: Replica, number: int, count: int) -> None:
        flight = replica.in_flight[number]
        finished, replica.in_flight[number] = flight[:count], flight[count:]
        if not finished:
            return
        partition = replica.partitions[number]
        ids = {(number, record.offset) for record in finished}
        if self.policy.ack_mode is AckMode.EXPLICIT_ONLY:
            partition.lane.on_unacked(finished)
            replica.handled |= ids
        else:
            partition.lane.on_settled(finished)
            self.done |= ids

    @rule(number=numbers, fate=fates)
    def fail(self, number: int, fate: str) -> None:
        """Something is, so that records fail again before others push them out of a short history."""
        self.hand_out(number, 1)
        replica = self._owner(number)
        if replica is None or not (flight := replica.in_flight[number]):
            return
        partition, failed = replica.partitions[number], flight[0]
        it = (number, failed.offset)
        partition.lane.on_failed([failed], "it raised", 1)
        partition.lane.on_returned([failed])
        if rest := flight[1:]:
            partition.lane.on_returned(rest)
        replica.in_flight[number] = []
        trouble = partition.failed.get(failed.offset)
        if trouble is None:  # it was acked while it ran
            partition.lane.become(PartitionState.ACTIVE)
            return
        for counted in (self.failures, replica.failures):
            counted[it] = counted.get(it, 0) + 1
        assert trouble.failures <= self.failures[it]
        if trouble.failures >= MAX_ATTEMPTS:
            partition.on_acked(failed.offset, failed.offset + 1)
            self.done.add(it)
        else:
            self._commit(replica, fate)
        partition.lane.become(PartitionState.ACTIVE)

    @rule(number=numbers, kept=st.integers(0, 3))
    def recall(self, number: int, kept: int) -> None:
        """In two messages, the later records first. With none kept: the worker was killed by the runtime."""
        replica = self._owner(number)
        if replica is None or not (back := replica.in_flight[number][kept:]):
            return
        partition = replica.partitions[number]
        partition.lane.is_recalled = True
        for part in filter(None, (back[1:], back[:1])):
            partition.lane.on_returned(part)
        replica.in_flight[number] = replica.in_flight[number][:kept]

    # ---- acks and commits

    @precondition(lambda self: self.policy.ack_mode.is_explicit)
    @rule(number=numbers, below_end=st.integers(-2, 12), through=st.booleans())
    def ack(self, number: int, below_end: int, through: bool) -> None:
        ack = Ack("t", number, self.group.ends[number] - below_end, through)
        for replica in self.replicas:
            if replica.is_frozen or not replica.acks.has(ack):
                continue
            is_early = number not in replica.partitions
            if replica.acks.take(ack) is not None:
                self._acked(ack)
            elif is_early:
                replica.early.append(ack)

    def _acked(self, ack: Ack) -> None:
        is_through = ack.is_through or self.policy.is_cumulative
        for offset in self.group.offsets[ack.partition]:
            if offset == ack.offset or (is_through and offset < ack.offset):
                self.done.add((ack.partition, offset))

    @rule(member=replicas, fate=fates)
    def commit(self, member: int, fate: str) -> None:
        replica = self.replicas[member]
        if not replica.is_frozen:
            self._commit(replica, fate)

    def _commit(self, replica: Replica, fate: str) -> bool:
        replica.client.fate = fate
        return self.loop.run_until_complete(replica.committer.commit(replica.partitions.values(), 60))

    # ---- members come and go

    @rule(
        choice=st.randoms(use_true_random=False),
        members=st.sets(replicas, min_size=1),
        fate=fates,
        is_patient=st.booleans(),
    )
    def rebalance(self, choice: random.Random, members: set[int], fate: str, is_patient: bool) -> None:
        """Those who are left out leave in peace; the frozen ones are thrown out."""
        for number, replica in enumerate(self.replicas):
            if number in self.group.members and not replica.is_frozen:
                self._revoke(replica, fate, is_patient=is_patient)
        self.group.members = {number for number in members if not self.replicas[number].is_frozen}
        self.group.generation += 1
        given: dict[int, list[int]] = {number: [] for number in self.group.members}
        if given:
            for number in range(PARTITIONS):
                given[choice.choice(sorted(given))].append(number)
        for member, partitions in given.items():
            replica = self.replicas[member]
            replica.client.generation = self.group.generation
            replica.acks.on_assigned(PartitionKey("t", number) for number in partitions)
            replica.starting = partitions

    def _revoke(self, replica: Replica, fate: str, *, is_patient: bool) -> None:
        for number, partition in replica.partitions.items():
            partition.revoke()
            if is_patient:
                self._finish(replica, number, 1)
            if left := replica.in_flight[number]:
                partition.lane.on_returned(left)
            replica.acks.end(partition)
        replica.acks.on_revoked(None)
        is_safe = self._commit(replica, fate)
        self.is_clean |= dict.fromkeys(replica.partitions, is_safe)
        replica.committer.close()
        self._forget(replica)

    @rule()
    def begin(self) -> None:
        """The starts of what a rebalance gave are read."""
        for replica in self.replicas:
            if replica.starting and not replica.is_frozen:
                self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        numbers, replica.starting = replica.starting, []
        committed = {PartitionKey("t", n): c for n in numbers if (c := self.group.commits.get(n))}
        starts = {key: committed.get(key, Checkpoint(0)) for key in (PartitionKey("t", n) for n in numbers)}
        for key, start in starts.items():
            replica.partitions[key.partition] = of_records(key, start, CAPACITY)
            replica.in_flight[key.partition] = []
            self._check_start(key.partition, start)
            self.is_clean[key.partition] = False  # until it is given back
        replica.acks.begin(list(replica.partitions.values()))
        for ack in replica.early:
            if 0 <= ack.offset < self.group.ends[ack.partition]:
                self._acked(ack)
        replica.early.clear()
        replica.committer.open(starts, committed, self.group.generation)

    def _check_start(self, number: int, start: Checkpoint) -> None:
        repeated = {it for it in self.done if it[0] == number and not _covers(start, it[1])}
        anew = repeated - self.may_repeat
        assert not (anew and self.is_clean[number]), f"L2: {anew} come again after a clean rebalance"
        self.may_repeat |= repeated

    @rule(member=replicas)
    def crash(self, member: int) -> None:
        """kill -9; something starts it again."""
        self.group.members.discard(member)
        for number in self.replicas[member].partitions:
            self.is_clean[number] = False
        self.replicas[member] = Replica(self.group, member, self.policy)

    @precondition(lambda self: not any(replica.is_frozen for replica in self.replicas))
    @rule(member=replicas)
    def freeze(self, member: int) -> None:
        self.replicas[member].is_frozen = True

    @precondition(lambda self: any(replica.is_frozen for replica in self.replicas))
    @rule(count=st.integers(0, 6), offset=st.integers(0, 40), fate=fates)
    def thaw(self, count: int, offset: int, fate: str) -> None:
        """What it still believes to own may be somebody else's; L7: nothing of what it says then counts."""
        member = next(number for number, replica in enumerate(self.replicas) if replica.is_frozen)
        replica = self.replicas[member]
        replica.is_frozen = False
        if member in self.group.members and replica.client.generation == self.group.generation:
            return  # it was short
        before, commits = set(self.done), dict(self.group.commits)
        for number, partition in replica.partitions.items():
            flight = replica.in_flight[number]
            if done := flight[:count]:
                partition.lane.on_settled(done)
                replica.in_flight[number] = flight[count:]
            if self.policy.ack_mode.is_explicit:
                replica.acks.take(Ack("t", number, offset, True))
        self._commit(replica, fate)
        assert self.group.commits == commits, "L7: a commit of a lost membership was taken"
        assert self.done == before
        replica.client.generation = -1
        self._revoke_lost(replica)

    def _revoke_lost(self, replica: Replica) -> None:
        for number, partition in replica.partitions.items():
            partition.revoke()
            if left := replica.in_flight[number]:
                partition.lane.on_returned(left)
            assert not partition.lane.in_flight_count
            replica.acks.end(partition)
        replica.acks.on_revoked(None)
        replica.committer.close()
        self._forget(replica)

    @staticmethod
    def _forget(replica: Replica) -> None:
        replica.partitions, replica.in_flight = {}, {}
        replica.handled, replica.failures, replica.starting = set(), {}, []
        replica.early.clear()

    def _owner(self, number: int) -> Replica | None:
        """Who runs the partition now."""
        found = [it for it in self.replicas if number in it.partitions and not it.is_frozen]
        assert len(found) <= 1
        return found[0] if found else None

    # ---- what always holds

    @invariant()
    def the_commit_is_true(self) -> None:
        """L5."""
        for number, commit in self.group.commits.items():
            covered = {(number, offset) for offset in self.group.offsets[number] if _covers(commit, offset)}
            assert covered <= self.done, f"L5: {covered - self.done} is committed and not done"

    def teardown(self) -> None:
        """L1: whatever has happened, everything is done in the end, and committed."""
        try:
            if hasattr(self, "replicas"):
                self._recover()
        finally:
            self.loop.close()

    def _recover(self) -> None:
        if any(replica.is_frozen for replica in self.replicas):
            self.thaw(0, 0, "ok")
        self.rebalance(random.Random(1), {*range(REPLICAS)}, "ok", is_patient=True)
        self.begin()
        for number in range(PARTITIONS):
            while not self._is_committed(number):
                self._move(number)
        every = {(n, offset) for n in range(PARTITIONS) for offset in self.group.offsets[n]}
        assert every <= self.done, f"L1: {every - self.done} is lost"

    def _move(self, number: int) -> None:
        replica = self._owner(number)
        assert replica is not None
        ledger = replica.partitions[number].ledger
        before = ledger.position
        self.hand_out(number, CAPACITY)
        self.finish(number, CAPACITY)
        if self.policy.ack_mode.is_explicit:
            for offset in (o for o in self.group.offsets[number] if ledger.is_open(o)):
                self.ack(number, self.group.ends[number] - offset, False)
        self.fetch(number)
        assert self._commit(replica, "ok")
        moved = ledger.position > before or ledger.committable == ledger.position
        assert moved or self._is_committed(number), f"L9: partition {number} doesn't move"

    def _is_committed(self, number: int) -> bool:
        return self.group.commits.get(number, Checkpoint(-1)).offset == self.group.ends[number]


def _covers(commit: Checkpoint, offset: int) -> bool:
    return offset < commit.offset or any(first <= offset < end for first, end in commit.acked)


def check(examples: int, steps: int, number: int | None = None) -> None:
    """Random histories of the model; with a seed, always the same ones."""
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine: Any = DeliveryModel
    logging.disable()
    try:
        run_state_machine_as_test(seed(number)(machine) if number is not None else machine, settings=options)
    finally:
        logging.disable(logging.NOTSET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="seeds")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--examples", type=int, default=50, help="histories per seed")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    for number in range(options.seed, options.seed + options.count):
        try:
            check(options.examples, options.steps, number)
        except (AssertionError, KafkaError):
            print(f"VIOLATION with --seed {number} --count 1")
            raise
    print(
        f"model: {options.count} repetitions, "
        f"{options.count * options.examples} histories of {options.steps} steps\n"
        f"violations 0, {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
