"""Which partitions a member has, gives up, and is to have. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.group.heartbeat import TopicIdPartition


@dataclass(frozen=True, slots=True)
class PartitionMoves:
    """What is to happen now: these come, these go."""

    given: frozenset[PartitionKey] = frozenset()
    revoked: frozenset[PartitionKey] = frozenset()


class Holdings:
    """A partition is held from when it is given until it is released, which ends its leaving."""

    def __init__(self) -> None:
        self.held: dict[PartitionKey, TopicIdPartition] = {}
        self.leaving: dict[PartitionKey, TopicIdPartition] = {}
        self.target: frozenset[TopicIdPartition] = frozenset()

    @property
    def owned(self) -> frozenset[TopicIdPartition]:
        """All that nobody else may have."""
        return frozenset(self.held.values()) | frozenset(self.leaving.values())

    @property
    def unnamed(self) -> frozenset[bytes]:
        """Ids of topics whose partitions are to come: those may still lack a name here."""
        return frozenset(topic_id for topic_id, _ in self.target - self.owned)

    def move(self, names: Mapping[bytes, str]) -> PartitionMoves:
        """Towards the target. What has no name yet comes later, and so does what has to leave first."""
        revoked = {key: part for key, part in self.held.items() if part not in self.target}
        for key in revoked:
            del self.held[key]
        self.leaving |= revoked
        coming = {PartitionKey(names[it], n): (it, n) for it, n in self.target if it in names}
        given = {
            key: part for key, part in coming.items() if key not in self.held and key not in self.leaving
        }
        self.held |= given
        return PartitionMoves(frozenset(given), frozenset(revoked))

    def release(self, keys: Collection[PartitionKey]) -> None:
        """Nothing is done with these any more."""
        for key in keys:
            self.leaving.pop(key, None)

    def lose(self) -> frozenset[PartitionKey]:
        """The group has given all of it away: what has to end now."""
        self.leaving |= self.held
        self.held, self.target = {}, frozenset()
        return frozenset(self.leaving)
