"""A partition that begins anew because a worker died: nobody is left to ack what that had handled."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from acks_alone import acks_alone
from hypothesis import example, given
from hypothesis import strategies as st
from worker_bench import records

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.outcomes import Ack

END = 12


def partition() -> AssignedPartition:
    return of_records(PartitionKey("t", 0), Checkpoint(0), 256)


@dataclass
class Model:
    """Two workers that handle records and leave them open; which of them each record is with."""

    partition: AssignedPartition = field(default_factory=partition)
    handled_by: dict[int, int] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)

    def fetch(self, count: int) -> None:
        """The log has no record 5."""
        p = self.partition
        first = p.ledger.position
        if found := [record for record in records(first, min(count, END - first)) if record.offset != 5]:
            p.on_fetched(found)

    def handle(self, worker: int, count: int) -> None:
        lane = self.partition.lane
        if lane.is_deliverable:
            taken = lane.take(count, 1 << 20)
            lane.on_sent(worker)
            offsets = [record.offset for record in taken]
            assert offsets == self.waiting()[: len(offsets)]
            lane.on_unacked(taken)
            self.handled_by |= dict.fromkeys(set(offsets) - self.acked, worker)

    def ack(self, offset: int) -> None:
        self.partition.on_acked(offset, offset + 1)
        self.acked.add(offset)
        self.handled_by.pop(offset, None)

    def die(self, worker: int) -> None:
        p = self.partition
        before = p.checkpoint
        orphans = {offset for offset, by in self.handled_by.items() if by == worker}
        assert p.awaiting_ack.orphan(worker) == len(orphans)
        assert p.awaiting_ack.has_orphans == bool(orphans)
        if orphans:
            assert not p.lane.is_deliverable
            p.redeliver()
            assert p.checkpoint == before
            self.handled_by = {o: by for o, by in self.handled_by.items() if by != worker}

    def waiting(self) -> list[int]:
        """What is to be handled of what is fetched."""
        fetched = range(self.partition.ledger.position)
        return [o for o in fetched if o != 5 and o not in self.acked and o not in self.handled_by]

    def check(self) -> None:
        p = self.partition
        assert p.lane.buffer.offsets(END) == self.waiting()
        ahead = {offset for offset in self.handled_by if offset >= p.ledger.position}
        assert p.awaiting_ack == self.handled_by.keys()
        is_open = {offset for offset in range(END) if p.ledger.is_open(offset)}
        assert is_open == set(self.waiting()) | self.handled_by.keys() - ahead


steps = st.lists(
    st.tuples(st.sampled_from(["fetch", "handle", "ack", "die"]), st.integers(0, 1), st.integers(1, END)),
    max_size=40,
)


@given(steps)
@example(
    [("fetch", 0, 12), ("handle", 0, 4), ("handle", 1, 4), ("die", 0, 1), ("fetch", 0, 2), ("fetch", 0, 9)]
)
@example([("fetch", 0, 9), ("handle", 1, 3), ("handle", 0, 3), ("die", 1, 1), ("die", 0, 1), ("fetch", 0, 3)])
def test_what_comes_again_is_what_nobody_who_lives_has_handled_and_nobody_has_acked(
    steps: Sequence[tuple[str, int, int]],
) -> None:
    model = Model()
    for verb, worker, number in steps:
        match verb:
            case "fetch":
                model.fetch(number)
            case "handle":
                model.handle(worker, number)
            case "ack" if number < END and number != 5:
                model.ack(number)
            case "die":
                model.die(worker)
        model.check()
    model.fetch(END)
    model.handle(0, END)
    model.handle(0, END)
    model.check()
    for offset in list(model.handled_by):
        model.ack(offset)
    assert model.partition.checkpoint == Checkpoint(END)
    assert not model.partition.awaiting_ack


def test_what_was_fetched_before_may_be_acked_while_it_comes_again() -> None:
    """By then the source may not have said where the partition ends."""
    p = partition()
    p.on_fetched(records(0, 10))
    p.lane.on_sent(0)
    p.lane.on_unacked(p.lane.take(4, 1 << 20))
    acks = acks_alone()
    acks.begin([p])
    p.redeliver()
    assert acks.settle(Ack("t", 0, 9, is_through=False)) is p
    assert acks.settle(Ack("t", 0, 10, is_through=False)) is None
    p.on_fetched(records(0, 10))
    assert p.lane.buffer.offsets(20) == [4, 5, 6, 7, 8]
