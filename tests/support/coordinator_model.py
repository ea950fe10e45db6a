"""A group coordinator of the protocol `consumer`, in memory: what a broker does with heartbeats (KIP-848)."""

from dataclasses import dataclass, field

from headrace.triggers.kafka.group.kip848.machine import (
    JOIN,
    LEAVE,
    Heartbeat,
    HeartbeatAnswer,
    TopicIdPartition,
)
from headrace.triggers.kafka.group.kip848.refusals import LOST

FENCED, UNKNOWN = 110, 25
assert {FENCED, UNKNOWN} < LOST


@dataclass
class Member:
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[TopicIdPartition] = frozenset()
    pending: frozenset[TopicIdPartition] = frozenset()
    """To be revoked: nobody else may have them before it says that it owns none of them."""
    told: frozenset[TopicIdPartition] | None = None


@dataclass
class CoordinatorModel:
    """As Kafka 4.1: nothing moves on for a member that has something to revoke."""

    parts: tuple[TopicIdPartition, ...]
    epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    target: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)

    def heartbeat(self, name: str, beat: Heartbeat) -> HeartbeatAnswer:
        if beat.epoch <= LEAVE:
            if self.members.pop(name, None) is not None:
                self._spread()
            return HeartbeatAnswer(0, "", beat.epoch, 1.0, None)
        if beat.epoch == JOIN:
            assert beat.topics
            assert beat.owned == frozenset()
            assert beat.is_full
            self.members[name] = Member()
            self._spread()
        if (member := self.members.get(name)) is None:
            return HeartbeatAnswer(UNKNOWN, "", 0, 1.0, None)
        if self._is_fenced(member, beat):
            return HeartbeatAnswer(FENCED, "", 0, 1.0, None)
        self._reconcile(name, member, beat.owned)
        is_news = beat.is_full or member.told != member.assigned
        member.told = member.assigned
        return HeartbeatAnswer(0, "", member.epoch, 1.0, member.assigned if is_news else None)

    def expel(self, name: str) -> None:
        """Its session is over, or it took too long to revoke."""
        if self.members.pop(name, None) is not None:
            self._spread()

    @staticmethod
    def _is_fenced(member: Member, beat: Heartbeat) -> bool:
        if beat.epoch in {JOIN, member.epoch}:
            return False
        is_previous = beat.epoch == member.previous_epoch
        return not (is_previous and beat.owned is not None and beat.owned <= member.assigned)

    def _spread(self) -> None:
        self.epoch += 1
        names = sorted(self.members)
        self.target = {name: frozenset(self.parts[i :: len(names)]) for i, name in enumerate(names)}

    def _reconcile(self, name: str, member: Member, owned: frozenset[TopicIdPartition] | None) -> None:
        target = self.target[name]
        if member.pending:
            if owned is None or owned & member.pending:
                return
            member.pending = frozenset()
        if going := member.assigned - target:
            member.assigned &= target
            if owned is None or owned & going:
                member.pending = going
                return
        taken = {it for other in self.members.values() for it in other.assigned | other.pending}
        member.assigned |= target - (taken - member.assigned)
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
