"""The assignor of shards: which member of a group has which, decided from the group's state. Pure.

All members cut the shards into as many shares as there are replicas, like v3io-go. A member goes for one
share and has what of it nobody else has. So while replicas of another count are still there, each shard has
one owner, and once they are gone every shard has one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from headrace.runtime.v3io.group_format import SessionState, Share


def cut(replica_count: int, shard_count: int) -> list[tuple[int, ...]]:
    """Return the shares: as equal as can be, some empty where there are more replicas than shards."""
    # v3io-go cuts by the same arithmetic: members of both makes have to mean the same shards by a share.
    step = shard_count / replica_count
    ends = [int(number * step + 0.5) for number in range(replica_count + 1)]
    return [tuple(range(first, end)) for first, end in pairwise(ends)]


@dataclass(frozen=True, slots=True)
class V3ioMember:
    """A replica of Headrace as a member, as it knows itself: `shards` are those it handles records of."""

    id: str
    share: int | None = None
    shards: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class ShareDecision:
    """The outcome of a heartbeat, which holds once `sessions` have been written.

    `member` is how it is to be then; None: others have shards that it handles, and it has to drop all.
    `is_waiting`: every share has a member, and this one isn't among the sessions.
    """

    sessions: tuple[SessionState, ...]
    member: V3ioMember | None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class ShardAssignor:
    """The rules by which all members of a group share its shards. Times are nanoseconds since 1970."""

    replica_count: int
    shard_count: int
    session_timeout_ns: int

    def decide(
        self, sessions: Sequence[SessionState], member: V3ioMember, now_ns: int, takes_more: bool = True
    ) -> ShareDecision:
        """Decide what a heartbeat of `member` writes: sessions without the stale ones, and with its own.

        Without `takes_more` the member keeps what it has.
        """
        others = tuple(it for it in sessions if it.member_id != member.id and not self.is_stale(it, now_ns))
        taken = {shard for session in others for shard in session.shards}
        # Two owners of a shard: the one that finds out drops all of its shards, uncommitted.
        if not taken.isdisjoint(member.shards):
            return ShareDecision(others, None)
        shares = cut(self.replica_count, self.shard_count)
        share = member.share
        # A member without shards may go for another share than before: it stood by, or its own was empty.
        if takes_more and not member.shards:
            share = self._choose(shares, share, self._claimed(shares, others), taken)
        if share is None:
            return ShareDecision(others, replace(member, share=None), is_waiting=True)
        shards = member.shards | (set(shares[share]) - taken if takes_more else set())
        # The share is written too: a newcomer may be a member before any of its shards is free.
        session = SessionState(member.id, now_ns, tuple(sorted(shards)), Share(share, self.replica_count))
        return ShareDecision((*others, session), V3ioMember(member.id, share, frozenset(shards)))

    def has_share(self, member: V3ioMember) -> bool:
        """Whether the member has its whole share, and that isn't an empty one."""
        share = (
            set[int]() if member.share is None else {*cut(self.replica_count, self.shard_count)[member.share]}
        )
        # Whoever has an empty share goes on looking: a share with work is free when its member is gone.
        return bool(share) and share <= member.shards

    def is_stale(self, session: SessionState, now_ns: int) -> bool:
        """Whether the session has timed out, so that any member may remove it."""
        return now_ns - session.heartbeat_ns >= self.session_timeout_ns

    def _choose(
        self, shares: list[tuple[int, ...]], own: int | None, claimed: set[int], taken: set[int]
    ) -> int | None:
        """Return a share without a member; None where each has one.

        Shares with shards come first, of these its own, then those of which others have least.
        """

        def rank(number: int) -> tuple[bool, bool, int, int]:
            share = shares[number]
            return not share, number != own, len(taken.intersection(share)), number

        return min((it for it in range(len(shares)) if it not in claimed), key=rank, default=None)

    def _claimed(self, shares: list[tuple[int, ...]], others: Iterable[SessionState]) -> set[int]:
        """Return the shares that have a member. Members of another count of replicas go for none of these.

        Members of other makes don't write which share they go for: it is told by their shards.
        """
        claimed, idle_count = set[int](), 0
        for session in others:
            if session.share is not None:
                # With another count the shares are cut otherwise: that index says nothing about these.
                if session.share.count == self.replica_count:
                    claimed.add(session.share.index)
            elif not session.shards:
                # A member of another make without shards has one of the empty shares, whichever that is.
                idle_count += 1
            elif session.shards in shares:
                claimed.add(shares.index(session.shards))
        empty = [number for number, share in enumerate(shares) if not share and number not in claimed]
        return claimed | set(empty[:idle_count])
