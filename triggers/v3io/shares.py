"""How shards are shared out, and what a member makes of a group's state. Pure.

All members cut the shards into as many shares as there are replicas, like v3io-go. A member goes for one
share and has what of it nobody else has. So while replicas of another count are still there, each shard has
one owner, and once they are gone everything has one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from headrace.runtime.v3io.group_format import SessionState, Share


def cut(replica_count: int, shard_count: int) -> list[tuple[int, ...]]:
    """The shares: as equal as can be, some empty where there are more replicas than shards."""
    step = shard_count / replica_count
    ends = [int(number * step + 0.5) for number in range(replica_count + 1)]
    return [tuple(range(first, end)) for first, end in pairwise(ends)]


@dataclass(frozen=True, slots=True)
class V3ioMember:
    """One of ours, as it knows itself: `shards` are those that it handles records of."""

    id: str
    share: int | None = None
    shards: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class ShareDecision:
    """What is so once `sessions` have been written.

    `member` is as it is to be then; None: others have shards that it handles, and it has to let go of all.
    `is_waiting`: every share has somebody, and it isn't among the sessions.
    """

    sessions: tuple[SessionState, ...]
    member: V3ioMember | None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class ShardAssignor:
    """What all of its members go by. Times are ns."""

    replica_count: int
    shard_count: int
    session_timeout_ns: int

    def decide(
        self, sessions: Sequence[SessionState], member: V3ioMember, now_ns: int, takes_more: bool = True
    ) -> ShareDecision:
        """For a heartbeat of `member`: without those whose time is over, and with itself.

        Without `takes_more` it keeps what it has.
        """
        others = tuple(it for it in sessions if it.member_id != member.id and not self.is_stale(it, now_ns))
        taken = {shard for session in others for shard in session.shards}
        if not taken.isdisjoint(member.shards):
            return ShareDecision(others, None)
        shares = cut(self.replica_count, self.shard_count)
        share = member.share
        if takes_more and not member.shards:
            share = self._choose(shares, share, self._claimed(shares, others), taken)
        if share is None:
            return ShareDecision(others, replace(member, share=None), is_waiting=True)
        shards = member.shards | (set(shares[share]) - taken if takes_more else set())
        session = SessionState(member.id, now_ns, tuple(sorted(shards)), Share(share, self.replica_count))
        return ShareDecision((*others, session), V3ioMember(member.id, share, frozenset(shards)))

    def has_share(self, member: V3ioMember) -> bool:
        """Whether it has all that it could ask for, and that isn't nothing."""
        share = (
            set[int]() if member.share is None else {*cut(self.replica_count, self.shard_count)[member.share]}
        )
        return bool(share) and share <= member.shards

    def is_stale(self, session: SessionState, now_ns: int) -> bool:
        """Whether anybody may remove it."""
        return now_ns - session.heartbeat_ns >= self.session_timeout_ns

    def _choose(
        self, shares: list[tuple[int, ...]], own: int | None, claimed: set[int], taken: set[int]
    ) -> int | None:
        """One without a member: first what has work, of that its own, then what can be had whole."""

        def rank(number: int) -> tuple[bool, bool, int, int]:
            share = shares[number]
            return not share, number != own, len(taken.intersection(share)), number

        return min((it for it in range(len(shares)) if it not in claimed), key=rank, default=None)

    def _claimed(self, shares: list[tuple[int, ...]], others: Iterable[SessionState]) -> set[int]:
        """Shares that somebody goes for. Those of another count of replicas go for none of these."""
        claimed, idle_count = set[int](), 0
        for session in others:
            if session.share is not None:
                if session.share.count == self.replica_count:
                    claimed.add(session.share.index)
            elif not session.shards:
                idle_count += 1
            elif session.shards in shares:
                claimed.add(shares.index(session.shards))
        empty = [number for number, share in enumerate(shares) if not share and number not in claimed]
        return claimed | set(empty[:idle_count])
