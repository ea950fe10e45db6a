"""A member of a group of the protocol `consumer` (KIP-848) as a state machine. Pure: no I/O, no clock.

`Machine` decides what the next heartbeat says and what becomes of the member's partitions; session.py sends
heartbeats and passes the answers in.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headrace.runtime.partitions.key import PartitionKey


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Facts that a member tells its group of itself, and never changes.

    `remote_assignor`: the broker's, by name. `instance_id`: who it is across restarts; "": nobody.
    """

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
    """A heartbeat's content. A field that is None is unchanged, as the coordinator knows it.

    `is_full` says again what never changes.
    """

    epoch: int
    topics: frozenset[str] | None = None
    owned: frozenset[TopicIdPartition] | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The coordinator's answer. `assigned` is None where it is unchanged."""

    error_code: int
    message: str
    epoch: int
    interval_seconds: float
    assigned: frozenset[TopicIdPartition] | None


@dataclass(frozen=True, slots=True)
class PartitionMoves:
    """Partitions that come now, and those that go."""

    given: frozenset[PartitionKey] = frozenset()
    revoked: frozenset[PartitionKey] = frozenset()


class Holdings:
    """Partitions that a member has, gives up, and is to have.

    A partition is held from when it is given until it is released, which ends its leaving.
    """

    def __init__(self) -> None:
        self.held: dict[PartitionKey, TopicIdPartition] = {}
        self.leaving: dict[PartitionKey, TopicIdPartition] = {}
        self.target: frozenset[TopicIdPartition] = frozenset()

    @property
    def owned(self) -> frozenset[TopicIdPartition]:
        """Partitions that nobody else may have."""
        return frozenset(self.held.values()) | frozenset(self.leaving.values())

    @property
    def unnamed(self) -> frozenset[bytes]:
        """Ids of topics whose partitions are to come: those may still lack a name here."""
        return frozenset(topic_id for topic_id, _ in self.target - self.owned)

    def move(self, names: Mapping[bytes, str]) -> PartitionMoves:
        """Move towards the target. Topics without a name come later, and so does what has to leave first."""
        revoked = {key: part for key, part in self.held.items() if part not in self.target}
        for key in revoked:
            del self.held[key]
        # Still owned: nobody else may have them before nothing runs in them and their last commit is through.
        self.leaving |= revoked
        # A partition that is leaving can be given again: it comes once it is released, as another one would.
        coming = {PartitionKey(names[it], n): (it, n) for it, n in self.target if it in names}
        given = {
            key: part for key, part in coming.items() if key not in self.held and key not in self.leaving
        }
        self.held |= given
        return PartitionMoves(frozenset(given), frozenset(revoked))

    def release(self, keys: Collection[PartitionKey]) -> None:
        """Forget these: nothing is done with them any more."""
        for key in keys:
            self.leaving.pop(key, None)

    def lose(self) -> frozenset[PartitionKey]:
        """Give everything up, as others have it. Return what has to end now."""
        # Others have them, yet handlers run here: the member joins again once these have ended.
        self.leaving |= self.held
        self.held, self.target = {}, frozenset()
        return frozenset(self.leaving)


class MemberState(Enum):
    """The state of a member."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    """Partitions are to be released, or are to be reported as released."""
    FENCED = "fenced"
    """The group has gone on without it. It joins again once all that it had is released."""
    LEAVING = "leaving"


class Machine:
    """A member's state machine: `next_heartbeat`, then `answered`, `fenced` or `answer_lost`, and again."""

    def __init__(self, *, is_static: bool) -> None:
        self._is_static = is_static
        self.epoch = JOIN
        """The member's epoch, as last heard. Commits carry it."""
        self.membership = 0
        """Counts joins: nothing of one may be committed in the next."""
        self.topics: frozenset[str] = frozenset()
        self.holdings = Holdings()
        self._phase = MemberState.UNSUBSCRIBED  # reconciling is told by the holdings
        self._sent_topics: frozenset[str] | None = None
        self._sent_owned: frozenset[TopicIdPartition] | None = None

    @property
    def state(self) -> MemberState:
        """The state, which counts what is still to be released."""
        is_behind = self.holdings.leaving or self._sent_owned != self.holdings.owned
        return MemberState.RECONCILING if self._phase is MemberState.STABLE and is_behind else self._phase

    @property
    def is_member(self) -> bool:
        """Whether the group counts on it, as far as is known."""
        return self._phase is MemberState.STABLE

    @property
    def is_heartbeat_due(self) -> bool:
        """Whether a heartbeat is due now."""
        if self._phase is MemberState.FENCED:
            return not self.holdings.leaving
        says_owned = self._sent_owned != self.holdings.owned
        return self._phase is MemberState.STABLE and (says_owned or self._sent_topics != self.topics)

    @property
    def leave_heartbeat(self) -> Heartbeat:
        """The heartbeat that leaves. A static member's partitions wait for it."""
        return Heartbeat(LEAVE_FOR_NOW if self._is_static else LEAVE)

    def subscribe(self, topics: Collection[str]) -> None:
        """Read these topics from now on."""
        self.topics = frozenset(topics)
        if self._phase is MemberState.UNSUBSCRIBED:
            self._begin()

    def next_heartbeat(self) -> Heartbeat | None:
        """Return the next heartbeat, or None while there is nothing to say.

        That is before it has subscribed, and while it isn't ready to join again.
        """
        if self._phase is MemberState.FENCED and not self.holdings.leaving:
            self._begin()
        if self._phase in {MemberState.UNSUBSCRIBED, MemberState.FENCED}:
            return None
        if self._phase is MemberState.LEAVING:
            return self.leave_heartbeat
        if self._phase is MemberState.JOINING:
            return Heartbeat(JOIN, self.topics, frozenset(), is_full=True)
        owned = self.holdings.owned
        return Heartbeat(
            self.epoch,
            None if self._sent_topics == self.topics else self.topics,
            None if self._sent_owned == owned else owned,
            is_full=self._sent_topics is None,
        )

    def answered(self, sent: Heartbeat, answer: HeartbeatAnswer) -> None:
        """Take the coordinator's answer to `sent`, which wasn't refused."""
        if self._phase not in {MemberState.JOINING, MemberState.STABLE}:
            return
        self._phase, self.epoch = MemberState.STABLE, answer.epoch
        # What the coordinator has taken needs not be said again, until it changes.
        self._sent_topics = self._sent_topics if sent.topics is None else sent.topics
        self._sent_owned = self._sent_owned if sent.owned is None else sent.owned
        if answer.assigned is not None:
            self.holdings.target = answer.assigned

    def answer_lost(self) -> None:
        """Say everything again: whether the coordinator has got the last heartbeat isn't known."""
        self._sent_topics = self._sent_owned = None

    def fenced(self) -> frozenset[PartitionKey]:
        """Begin anew: the group has gone on without it. Return all that has to end now."""
        if self._phase is not MemberState.LEAVING:
            self._phase = MemberState.FENCED
        self.epoch = JOIN
        self.answer_lost()
        return self.holdings.lose()

    def move(self, names: Mapping[bytes, str]) -> PartitionMoves:
        """Return what comes and goes by the last answer. `names` are of topics, by id."""
        return self.holdings.move(names) if self._phase is MemberState.STABLE else PartitionMoves()

    def released(self, keys: Collection[PartitionKey]) -> None:
        """Note that what was revoked, or lost, has ended here."""
        self.holdings.release(keys)

    def leave(self) -> bool:
        """Leave. Return whether there is a group to say it to."""
        was_in = self._phase in {MemberState.JOINING, MemberState.STABLE}
        self._phase = MemberState.LEAVING
        return was_in

    def _begin(self) -> None:
        self._phase, self.epoch = MemberState.JOINING, JOIN
        # A new membership: commits of the one before are refused by this number.
        self.membership += 1
        self.answer_lost()


class SessionDeadline:
    """The time until which a group keeps a member.

    A member must not go silent for the session, and has to release what was revoked within rebalanceTimeout.
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
        """Note that a heartbeat goes out. `is_revoking`: more is to be released."""
        self._sent_ns, self._is_revoking = now_ns, is_revoking
        if self._unanswered_ns is None:
            self._unanswered_ns = now_ns

    def join(self) -> None:
        """Begin a new membership: nothing that was told to the one before counts."""
        self._unanswered_ns = None

    def answered(self) -> int:
        """Return when the membership ends, by the answer to the last heartbeat.

        The coordinator may have revoked something by an answer that has not come: to the first one since.
        """
        # Nothing was to be released when it was sent: from then on the coordinator may have revoked
        # something.
        if not self._is_revoking and self._unanswered_ns is not None:
            self._settled_ns = self._unanswered_ns
        self._unanswered_ns = None
        session_end_ns = self._sent_ns + int(self.session_seconds * 1e9)
        return min(session_end_ns, self._settled_ns + self._rebalance_ns)
