"""What a member tells its group of itself, and never changes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headrace.runtime.partitions.key import PartitionKey


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """`remote_assignor`: the broker's, by name. `instance_id`: who it is across restarts; "": nobody."""

    group: str
    rebalance_timeout_seconds: float
    remote_assignor: str = "uniform"
    instance_id: str = ""


JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2


"""Epochs that ask for something. The last one is a static member's: its partitions wait for it."""


TopicIdPartition: TypeAlias = tuple[bytes, int]


"""A topic's id, and the partition's number."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """None is: as the coordinator knows it. `is_full` says again what never changes."""

    epoch: int
    topics: frozenset[str] | None = None
    owned: frozenset[TopicIdPartition] | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """`assigned` None is: as it was said last."""

    error_code: int
    message: str
    epoch: int
    interval_seconds: float
    assigned: frozenset[TopicIdPartition] | None


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


class MemberState(Enum):
    """Where a member stands."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    """Something is to be released, or is to be said as released."""
    FENCED = "fenced"
    """The group has gone on without it. It joins again once all that it had is released."""
    LEAVING = "leaving"


class Machine:
    """One heartbeat at a time: `next_heartbeat`, then `answered`, `fenced` or `unheard`."""

    def __init__(self, *, is_static: bool) -> None:
        self._is_static = is_static
        self.epoch = JOIN
        """Of the member, as last heard. Commits carry it."""
        self.membership = 0
        """Counts joins: nothing of one may be committed in the next."""
        self.topics: frozenset[str] = frozenset()
        self.holdings = Holdings()
        self._phase = MemberState.UNSUBSCRIBED  # reconciling is told by the holdings
        self._told_topics: frozenset[str] | None = None
        self._told_owned: frozenset[TopicIdPartition] | None = None

    @property
    def state(self) -> MemberState:
        """By what is still to be released, too."""
        is_behind = self.holdings.leaving or self._told_owned != self.holdings.owned
        return MemberState.RECONCILING if self._phase is MemberState.STABLE and is_behind else self._phase

    @property
    def is_member(self) -> bool:
        """The group counts on it, as far as is known."""
        return self._phase is MemberState.STABLE

    @property
    def has_to_say(self) -> bool:
        """A heartbeat is due now."""
        if self._phase is MemberState.FENCED:
            return not self.holdings.leaving
        says_owned = self._told_owned != self.holdings.owned
        return self._phase is MemberState.STABLE and (says_owned or self._told_topics != self.topics)

    @property
    def farewell(self) -> Heartbeat:
        """A static member's partitions wait for it."""
        return Heartbeat(LEAVE_FOR_NOW if self._is_static else LEAVE)

    def subscribe(self, topics: Collection[str]) -> None:
        """Read these from now on."""
        self.topics = frozenset(topics)
        if self._phase is MemberState.UNSUBSCRIBED:
            self._begin()

    def next_heartbeat(self) -> Heartbeat | None:
        """None where there is nothing to say: not subscribed, or not yet ready to join again."""
        if self._phase is MemberState.FENCED and not self.holdings.leaving:
            self._begin()
        if self._phase in {MemberState.UNSUBSCRIBED, MemberState.FENCED}:
            return None
        if self._phase is MemberState.LEAVING:
            return self.farewell
        if self._phase is MemberState.JOINING:
            return Heartbeat(JOIN, self.topics, frozenset(), is_full=True)
        owned = self.holdings.owned
        return Heartbeat(
            self.epoch,
            None if self._told_topics == self.topics else self.topics,
            None if self._told_owned == owned else owned,
            is_full=self._told_topics is None,
        )

    def answered(self, sent: Heartbeat, answer: HeartbeatAnswer) -> None:
        """The coordinator took it."""
        if self._phase not in {MemberState.JOINING, MemberState.STABLE}:
            return
        self._phase, self.epoch = MemberState.STABLE, answer.epoch
        self._told_topics = self._told_topics if sent.topics is None else sent.topics
        self._told_owned = self._told_owned if sent.owned is None else sent.owned
        if answer.assigned is not None:
            self.holdings.target = answer.assigned

    def unheard(self) -> None:
        """Whether the coordinator has the last one isn't known: all is said again."""
        self._told_topics = self._told_owned = None

    def fenced(self) -> frozenset[PartitionKey]:
        """The group has gone on without it. Returns all that has to end now."""
        if self._phase is not MemberState.LEAVING:
            self._phase = MemberState.FENCED
        self.epoch = JOIN
        self.unheard()
        return self.holdings.lose()

    def move(self, names: Mapping[bytes, str]) -> PartitionMoves:
        """What comes and goes by what has been answered. `names` are of topics, by id."""
        return self.holdings.move(names) if self._phase is MemberState.STABLE else PartitionMoves()

    def released(self, keys: Collection[PartitionKey]) -> None:
        """What was revoked, or lost, has ended here."""
        self.holdings.release(keys)

    def leave(self) -> bool:
        """Whether there is a group to say it to."""
        was_in = self._phase in {MemberState.JOINING, MemberState.STABLE}
        self._phase = MemberState.LEAVING
        return was_in

    def _begin(self) -> None:
        self._phase, self.epoch = MemberState.JOINING, JOIN
        self.membership += 1
        self.unheard()


class SessionDeadline:
    """It doesn't go silent for the session, and has released what was revoked within rebalanceTimeout.

    Both count from the sending of heartbeats: the coordinator starts its clocks later.
    """

    def __init__(self, rebalance_timeout_seconds: float) -> None:
        self.session_seconds = 0.0
        """The coordinator's."""
        self._rebalance_ns = int(rebalance_timeout_seconds * 1e9)
        self._sent_ns = self._settled_ns = 0
        self._unanswered_ns: int | None = None  # the first one since the last answer
        self._is_revoking = False

    def sent(self, now_ns: int, *, is_revoking: bool) -> None:
        """A heartbeat goes out. `is_revoking`: more is to be released."""
        self._sent_ns, self._is_revoking = now_ns, is_revoking
        if self._unanswered_ns is None:
            self._unanswered_ns = now_ns

    def join(self) -> None:
        """A new membership: nothing that was told to the one before counts."""
        self._unanswered_ns = None

    def answered(self) -> int:
        """When it ends, by the answer to the last one.

        The coordinator may have revoked something by an answer that has not come: to the first one since.
        """
        if not self._is_revoking and self._unanswered_ns is not None:
            self._settled_ns = self._unanswered_ns
        self._unanswered_ns = None
        session_end_ns = self._sent_ns + int(self.session_seconds * 1e9)
        return min(session_end_ns, self._settled_ns + self._rebalance_ns)
