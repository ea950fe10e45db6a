"""A member, as what it has been told: what it says next, and what becomes of its partitions. Pure."""

from collections.abc import Collection, Mapping
from enum import Enum

from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.group.heartbeat import (
    JOIN,
    LEAVE,
    LEAVE_FOR_NOW,
    Heartbeat,
    HeartbeatAnswer,
    TopicIdPartition,
)
from headrace.triggers.kafka.group.holdings import Holdings, PartitionMoves


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
