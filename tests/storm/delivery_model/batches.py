"""Batches: chosen, committed as a plan, handed out, and repeated as they were."""

from itertools import chain

from hypothesis.stateful import precondition, rule

from headrace.runtime.dispatch.batcher import choose_batch
from headrace.runtime.dispatch.plan_committer import extend_plan
from headrace.runtime.partitions.state import PartitionState

from .records import Records
from .replica import Replica
from .state import fates, numbers, replicas


class Batches(Records):
    """Of all partitions of a replica that have something."""

    @precondition(lambda self: self.policy.batch is not None)
    @rule(member=replicas, first=numbers)
    def plan(self, member: int, first: int) -> None:
        self.begin()
        replica = self.replicas[member]
        if replica.is_frozen or self.policy.batch is None:
            return
        for number in list(replica.partitions):
            self.fetch(number)
        ready = [p for p in replica.partitions.values() if p.lane.is_deliverable]
        ready.sort(key=lambda partition: (partition.key.partition != first, partition.key))
        for partition in ready:
            extend_plan(partition, self.policy.batch.size)
        for part in choose_batch(ready, self.policy.batch, 1e9).parts:
            planned = (part.partition, part.plan.end)
            part.partition.propose(part.plan)
            replica.planned.append(planned)

    def busy(self, number: int) -> Replica | None:
        """In a batch of those that may be in one."""
        self.begin()
        replica = self.owner(number)
        if self.policy.batch is None or replica is None or replica.in_flight[number]:
            return super().busy(number)
        member = self.replicas.index(replica)
        self.plan(member, number)
        self.send(member, "ok")
        return replica if replica.in_flight[number] else None

    @precondition(lambda self: self.policy.batch is not None)
    @rule(member=replicas, fate=fates)
    def send(self, member: int, fate: str) -> None:
        """Once its plan is committed; as long as it isn't, it waits."""
        replica = self.replicas[member]
        if replica.is_frozen or not replica.planned or not self.commit_now(replica, fate):
            return
        planned, replica.planned = replica.planned, []
        for partition, end in planned:
            if partition.lane.state is PartitionState.PLANNING:
                partition.lane.become(PartitionState.ACTIVE)
                records = list(chain(*partition.lane.take_batch(end)))
                offsets = [record.offset for record in records]
                if offsets and partition.plan.of(offsets[0]) is not None:  # else one further on is kept
                    self._check_part(replica, partition.key.partition, offsets)
                self.deliver(replica, partition.key.partition, records)

    def _check_part(self, replica: Replica, number: int, sent: list[int]) -> None:
        if not sent:
            return
        before = self.parts.get(number, [])
        if before and {*sent}.isdisjoint(before):
            return  # it lies below: its plan would have to replace that of the other
        owed = [o for o in before if (number, o) not in self.done | replica.handled]
        if owed:
            # What was acked before the batch went, and is held back from commits, a new owner repeats in it.
            more = {*sent} - {*before}
            text = f"{before} of {number} comes again as {sent}"
            assert {*owed} <= {*sent}, text
            assert all((number, o) in self.done for o in more), text
            assert len(more) <= self.policy.ack_window_size, text
        self.parts[number] = sent

    @precondition(lambda self: self.policy.batch is not None)
    @rule(number=numbers)
    def die(self, number: int) -> None:
        """A worker does, by itself. The same batch once more; after that, its records are suspects."""
        if (replica := self.busy(number)) is None:
            return
        flight, partition = replica.in_flight[number], replica.partitions[number]
        replica.in_flight[number] = []
        partition.lane.on_suspected(flight)
        partition.lane.on_returned(flight)
        replica.deaths[number] = replica.deaths.get(number, 0) + 1
        if replica.deaths[number] > 1:
            self.forget_part(number, [record.offset for record in flight])
        self.after_return(replica, number)
