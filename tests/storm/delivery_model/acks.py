"""Acks, of whatever offset, and commits that take their time."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headrace.runtime.wire.outcomes import Ack

from .batches import Batches
from .replica import Replica
from .state import fates, numbers, replicas


class AcksAndCommits(Batches):
    """What settles records from outside, and what makes it last."""

    @precondition(lambda self: self.policy.ack_mode.is_explicit)
    @rule(number=numbers, below_end=st.integers(-2, 12), through=st.booleans())
    def ack(self, number: int, below_end: int, through: bool) -> None:
        ack = Ack("t", number, self.group.ends[number] - below_end, through)
        for replica in self.replicas:
            if replica.is_frozen or not replica.acks.has(ack):
                continue
            is_early = number not in replica.partitions
            if replica.acks.settle(ack) is not None:
                if not is_early:  # else it is of the log that was there before this one
                    self._acked(replica, ack)
                    self.after_ack(replica, number)
            elif is_early:
                replica.early.append(ack)

    def _acked(self, replica: Replica, ack: Ack) -> None:
        """What has failed and comes again is left to its policy, unless it is acked by its own name."""
        is_through = ack.is_through or self.policy.is_cumulative
        ledger = replica.partitions[ack.partition].ledger
        for offset in self.group.offsets[ack.partition]:
            it = (ack.partition, offset)
            is_left = it in self.failures and not ledger.is_settled(offset)
            if offset == ack.offset or (is_through and offset < ack.offset and not is_left):
                self.done.add(it)

    def after_ack(self, replica: Replica, number: int) -> None:
        """As a dispatcher does: what had waited for this record goes on."""
        partition = replica.partitions[number]
        if partition.lane.state.waits_for_a_record and not partition.has_failed_waiting:
            self.in_loop(lambda: replica.failed.retry(partition.lane))

    def take_early_acks(self, replica: Replica) -> None:
        """Those that came before the start was known, of what is begun now."""
        begun = [replica.partitions[n] for n in replica.partitions]
        replica.acks.begin(begun)
        for ack in replica.early:
            if 0 <= ack.offset < self.group.ends[ack.partition]:
                self._acked(replica, ack)
        replica.early.clear()

    @rule(member=replicas, fate=fates)
    def commit(self, member: int, fate: str) -> None:
        replica = self.replicas[member]
        if not replica.is_frozen:
            self.commit_now(replica, fate)

    @rule(member=replicas)
    def begin_commit(self, member: int) -> None:
        """It is under way while other things happen, and others may be waiting behind it."""
        replica = self.replicas[member]
        if replica.is_frozen or len(replica.tasks) >= 3:
            return
        replica.client.is_held = True
        self.in_loop(lambda: replica.start(replica.committer.commit(replica.partitions.values(), 5)))
        self.loop.settle()

    @rule(member=replicas, which=st.integers(0, 2))
    def arrive(self, member: int, which: int) -> None:
        """A broker takes a commit; its answer is on its way."""
        client = self.replicas[member].client
        if not self.replicas[member].is_frozen and which < len(client.waiting):
            client.arrive(client.waiting[which])

    @rule(member=replicas, which=st.integers(0, 2), fate=fates)
    def answer(self, member: int, which: int, fate: str) -> None:
        """A commit that was under way is over."""
        client = self.replicas[member].client
        if not self.replicas[member].is_frozen and which < len(client.waiting):
            client.deliver(client.waiting[which], fate)
            self.loop.settle()
