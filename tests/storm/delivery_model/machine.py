"""The whole model, what always holds of it, and what holds in the end."""

from typing import Any

from hypothesis.stateful import invariant

from .broker import PARTITIONS
from .members import Members
from .state import CAPACITY, covers


class DeliveryModel(Members):
    """Any history of what its rules bring about."""

    @invariant()
    def the_commit_is_true(self) -> None:
        """L5, and what tasks have broken."""
        assert not self.group.violations
        for number, commit in self.group.commits.items():
            covered = {(number, offset) for offset in self.group.offsets[number] if covers(commit, offset)}
            assert covered <= self.done, f"L5: {covered - self.done} is committed and not done"

    def teardown(self) -> None:
        """L1: whatever has happened, everything is done in the end, and committed."""
        try:
            if hasattr(self, "replicas"):
                self._recover()
        finally:
            for replica in getattr(self, "replicas", []):
                self.loop.run_until_complete(replica.end())
            self.loop.close()

    def _recover(self) -> None:
        if any(replica.is_frozen for replica in self.replicas):
            self.thaw(0, 0, "ok")
        for replica in self.replicas:
            self.settle_commits(replica, "ok")
        self.rebalance(1, None, "ok", is_patient=True)
        self.begin()
        for number in range(PARTITIONS):
            while not self._is_committed(number):
                self._move(number)
            self._check_end(number)
        every = {(n, offset) for n in range(PARTITIONS) for offset in self.group.offsets[n]}
        assert every <= self.done, f"L1: {every - self.done} is lost"
        self.the_commit_is_true()

    def _check_end(self, number: int) -> None:
        commit = self.group.commits[number]
        held_back = [offset for offset in self.group.offsets[number] if not covers(commit, offset)]
        assert len(held_back) <= self.policy.ack_window_size, f"L9: {held_back} of {number} is not committed"
        assert commit.offset == self.group.ends[number] or self.policy.ack_window_size

    def _move(self, number: int) -> None:
        replica = self.owner(number)
        assert replica is not None
        ledger = replica.partitions[number].ledger
        before = self._progress(number)
        if self.policy.batch is None:
            self.hand_out(number, CAPACITY)
        else:
            member = self.replicas.index(replica)
            self.plan(member, number)
            self.send(member, "ok")
        self.finish(number, CAPACITY, no_ack=False)
        if self.policy.ack_mode.is_explicit:
            for offset in (o for o in self.group.offsets[number] if ledger.is_open(o)):
                self.ack(number, self.group.ends[number] - offset, False)
        self.fetch(number)
        assert self.commit_now(replica, "ok")
        moved = self._progress(number) != before
        assert moved or self._is_committed(number), f"L9: partition {number} doesn't move"

    def _progress(self, number: int) -> Any:
        replica = self.owner(number)
        assert replica is not None
        ledger = replica.partitions[number].ledger
        return ledger.position, ledger.committable, ledger.settled_spans()

    def _is_committed(self, number: int) -> bool:
        replica = self.owner(number)
        assert replica is not None
        partition = replica.partitions[number]
        is_done = partition.ledger.committable == self.group.ends[number]
        return is_done and self.group.commits.get(number) == partition.checkpoint
