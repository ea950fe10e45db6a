"""What the model knows at any time, and what each of its replicas may then do."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy, FailurePolicy, Then
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.state import PartitionState

from .broker import PARTITIONS, Group
from .clock import VirtualLoop
from .replica import Replica

REPLICAS = 3
CAPACITY = 16
MAX_ATTEMPTS = 3

T = TypeVar("T")
RecordId = tuple[int, int]
"""Partition and offset."""

replicas = st.integers(0, REPLICAS - 1)
numbers = st.integers(0, PARTITIONS - 1)
# What becomes of a request: it arrives, it doesn't, or it does and its answer is lost.
fates = st.sampled_from(["ok", "ok", "ok", "request lost", "answer lost"])


class State(RuleBasedStateMachine):
    """`done`: handled or acked under whoever owned the partition then, or given up. The rest is owed."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.group = Group()
        self.done: set[RecordId] = set()
        self.failures: dict[RecordId, int] = {}
        self.may_repeat: set[RecordId] = set()
        self.is_clean = dict.fromkeys(range(PARTITIONS), True)
        self.parts: dict[int, list[int]] = {}
        """Of batches without an outcome: which records of a partition have to come together again."""

    @initialize(
        mode=st.sampled_from(AckMode),
        cumulative=st.booleans(),
        window=st.sampled_from([0, 0, 3]),
        batch=st.sampled_from([None, None, BatchPolicy(5, 0)]),
        then=st.sampled_from(["skip", "deadLetter", "halt"]),
    )
    def start(
        self, mode: AckMode, cumulative: bool, window: int, batch: BatchPolicy | None, then: Then
    ) -> None:
        self.policy = DeliveryPolicy(
            ack_mode=mode,
            explicit_ack_semantics="cumulative" if cumulative and mode.is_explicit else "individual",
            ack_window_size=window,
            batch=batch,
            failure=FailurePolicy(MAX_ATTEMPTS, backoff_seconds=1.0, then=then, dead_letter_topic="d"),
        )
        self.replicas = [self.new_replica(number) for number in range(REPLICAS)]
        self.rebalance(0, None, "ok", True)

    @abstractmethod
    def rebalance(self, choice: int, absent: int | None, fate: str, is_patient: bool) -> None:
        """A new generation."""

    @abstractmethod
    def begin(self) -> None:
        """What was assigned is delivered."""

    def new_replica(self, member: int) -> Replica:
        """One that has just been started."""

        def write_letter(number: int, offset: int, is_its_own: bool) -> None:
            self.give_up(number, offset)
            if not is_its_own:  # nobody has waited for it: whoever has the record now may not know
                self.may_repeat.add((number, offset))

        return Replica(self.group, member, self.policy, write_letter)

    def give_up(self, number: int, offset: int) -> None:
        """By the failure policy, which has something to wait for."""
        it = (number, offset)
        if self.failures.get(it, 0) < MAX_ATTEMPTS:
            self.group.violations.append(f"L1: {it} is given up after {self.failures.get(it, 0)} failures")
        self.done.add(it)

    def in_loop(self, call: Callable[[], T]) -> T:
        """What it starts goes on by itself."""

        async def run() -> T:
            return call()

        return self.loop.run_until_complete(run())

    def commit_now(self, replica: Replica, fate: str) -> bool:
        """All that is under way, then one more commit; whether that one was taken."""
        self.settle_commits(replica, fate)
        replica.client.fate = fate
        partitions = list(replica.all_partitions())
        is_taken = self.loop.run_until_complete(replica.committer.commit(partitions, 60))
        replica.client.fate = "ok"
        return is_taken

    def settle_commits(self, replica: Replica, fate: str) -> None:
        """Those that are under way have this fate."""
        replica.client.is_held, replica.client.fate = False, fate
        while replica.client.waiting or replica.tasks:
            for request in list(replica.client.waiting):
                replica.client.deliver(request, fate)
            self.loop.settle()
        replica.client.fate = "ok"

    def owner(self, number: int) -> Replica | None:
        """Who runs the partition now."""
        found = [it for it in self.replicas if number in it.partitions and not it.is_frozen]
        assert len(found) <= 1
        return found[0] if found else None

    def after_return(self, replica: Replica, number: int) -> None:
        """As a dispatcher does when something is back."""
        partition = replica.partitions[number]
        if partition.lane.state is PartitionState.RETURNING and not partition.lane.in_flight_count:
            self.in_loop(lambda: replica.failed.after_failure(partition, partition.lane))


def covers(commit: Checkpoint, offset: int) -> bool:
    """Whether the next owner need not deliver it."""
    return offset < commit.offset or any(first <= offset < end for first, end in commit.acked)
