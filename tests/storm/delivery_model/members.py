"""Members come and go, freeze and die, and logs are made anew."""

import random

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.wire.outcomes import Ack

from .acks import AcksAndCommits
from .broker import PARTITIONS
from .replica import Replica
from .state import CAPACITY, REPLICAS, covers, fates, numbers, replicas


class Members(AcksAndCommits):
    """The life of assignments."""

    @rule(
        choice=st.integers(0, 99),
        absent=st.sampled_from([None, None, *range(REPLICAS)]),
        fate=fates,
        is_patient=st.booleans(),
    )
    def rebalance(self, choice: int, absent: int | None, fate: str, is_patient: bool) -> None:
        """Who is left out leaves in peace; the frozen ones are thrown out."""
        for number, replica in enumerate(self.replicas):
            if number in self.group.members and not replica.is_frozen:
                self._revoke(replica, fate, is_patient=is_patient)
        members = {*range(REPLICAS)} - {absent}
        self.group.members = {number for number in members if not self.replicas[number].is_frozen}
        self.group.generation += 1
        given: dict[int, list[int]] = {number: [] for number in self.group.members}
        if given:
            chosen = random.Random(choice)
            for number in range(PARTITIONS):
                given[chosen.choice(sorted(given))].append(number)
        for member, partitions in given.items():
            replica = self.replicas[member]
            replica.client.generation = self.group.generation
            replica.acks.on_assigned(PartitionKey("t", number) for number in partitions)
            replica.starting = partitions

    def _revoke(self, replica: Replica, fate: str, *, is_patient: bool) -> None:
        for number, partition in replica.partitions.items():
            partition.revoke()
            if is_patient:
                self.finish_in(replica, number, 1, no_ack=False)
            self._take_away(replica, partition)
        replica.acks.on_revoked(None)
        # A dead letter that nobody waits for may be written once the next owner has begun.
        late = {number for number, it in replica.partitions.items() if it.lane.id in replica.writes}
        is_safe = self.commit_now(replica, fate)
        self.is_clean |= {number: is_safe and number not in late for number in replica.partitions}
        replica.committer.close()
        replica.forget()

    def _take_away(self, replica: Replica, partition: AssignedPartition) -> None:
        """What it has in flight is killed."""
        if left := replica.in_flight[partition.key.partition]:
            partition.lane.on_returned(left)
        replica.in_flight[partition.key.partition] = []
        assert not partition.lane.in_flight_count
        replica.failed.forget(partition)
        replica.acks.end(partition)

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
            self._deliver_from(replica, key, start)
            self._check_start(key.partition, start)
            self.is_clean[key.partition] = False  # until it is given back
        self.take_early_acks(replica)
        replica.committer.open(starts, committed, self.group.generation)

    def _deliver_from(self, replica: Replica, key: PartitionKey, start: Checkpoint) -> None:
        partition = of_records(key, start, CAPACITY, self.policy.ack_window_size)
        replica.partitions[key.partition] = partition
        replica.logs[partition.lane.id] = self.group.offsets[key.partition]
        replica.in_flight[key.partition] = []
        replica.failed.begin(partition)

    def _check_start(self, number: int, start: Checkpoint) -> None:
        repeated = {it for it in self.done if it[0] == number and not covers(start, it[1])}
        anew = repeated - self.may_repeat
        is_explained = len(anew) <= self.policy.ack_window_size or not self.is_clean[number]
        assert is_explained, f"L2: {anew} come again after a clean rebalance"
        self.may_repeat |= repeated

    @rule(member=replicas, arrives=st.booleans())
    def crash(self, member: int, arrives: bool) -> None:
        """kill -9; something starts it again. What it has sent may arrive."""
        replica = self.replicas[member]
        if arrives and not replica.is_frozen:
            for request in replica.client.waiting:
                replica.client.arrive(request)
        self.group.members.discard(member)
        for number in (*replica.partitions, *replica.restarting):
            self.is_clean[number] = False
        self.loop.run_until_complete(replica.end())
        self.replicas[member] = self.new_replica(member)

    @precondition(lambda self: not any(replica.is_frozen for replica in self.replicas))
    @rule(member=replicas, is_long=st.sampled_from([False, False, True]))
    def freeze(self, member: int, is_long: bool) -> None:
        """With what it has sent: that never comes."""
        if not is_long:
            return
        self.replicas[member].is_frozen = True
        self.replicas[member].client.is_held = True

    @precondition(lambda self: any(replica.is_frozen for replica in self.replicas))
    @rule(count=st.integers(0, 6), offset=st.integers(0, 40), fate=fates)
    def thaw(self, count: int, offset: int, fate: str) -> None:
        """What it still believes to own may be somebody else's; L7: nothing of what it says then counts."""
        member = next(number for number, replica in enumerate(self.replicas) if replica.is_frozen)
        replica = self.replicas[member]
        if member in self.group.members and replica.client.generation == self.group.generation:
            replica.is_frozen = False
            return  # it was short
        taken = self.group.taken[member]
        for number, partition in replica.partitions.items():
            flight = replica.in_flight[number]
            if done := flight[:count]:
                partition.lane.on_settled(done)
                replica.in_flight[number] = flight[count:]
            if self.policy.ack_mode.is_explicit:
                replica.acks.settle(Ack("t", number, offset, True))
        self.commit_now(replica, fate)
        assert self.group.taken[member] == taken, "L7: a commit of a lost membership was taken"
        replica.client.generation = -1
        for partition in replica.partitions.values():
            partition.revoke()
            self._take_away(replica, partition)
        replica.acks.on_revoked(None)
        replica.committer.close()
        replica.forget()
        replica.is_frozen = False

    @precondition(lambda self: not any(it.is_frozen or it.starting for it in self.replicas))
    @rule(number=numbers, fate=fates)
    def make_anew(self, number: int, fate: str) -> None:
        """The log is another one of the same name; commits that were taken may still be unanswered."""
        for replica in self.replicas:
            for request in replica.client.waiting:
                replica.client.arrive(request)
        self.group.make_anew(number)
        self.done = {it for it in self.done if it[0] != number}
        self.may_repeat = {it for it in self.may_repeat if it[0] != number}
        self.failures = {it: count for it, count in self.failures.items() if it[0] != number}
        self.parts.pop(number, None)
        self.is_clean[number] = True
        if (owner := self.owner(number)) is not None:
            self._restart(owner, number)

    def _restart(self, replica: Replica, number: int) -> None:
        partition = replica.partitions.pop(number)
        replica.restarting[number] = partition
        replica.handled = {it for it in replica.handled if it[0] != number}
        replica.failures = {it: count for it, count in replica.failures.items() if it[0] != number}
        replica.deaths.pop(number, None)
        partition.is_replaced = True
        partition.revoke()
        self._take_away(replica, partition)

        async def restart() -> None:
            await replica.committer.mark_stale(partition.key)
            if replica.restarting.get(number) is partition:
                del replica.restarting[number]
                self._deliver_from(replica, partition.key, Checkpoint(0))
                self.take_early_acks(replica)
                self.is_clean[number] = False

        self.in_loop(lambda: replica.start(restart()))
        self.loop.settle()
