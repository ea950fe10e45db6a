"""Who gets which shards: v3io-go's shares, and its faults that members of ours don't have."""

from collections.abc import Sequence

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.runtime.v3io.group_format import SessionState, Share
from headrace.triggers.v3io.shares import ShardAssignor, ShareDecision, V3ioMember, cut

SECOND = 1_000_000_000
TIMEOUT = 10 * SECOND
NOW = 1_000 * SECOND


def others(*shards: Sequence[int]) -> tuple[SessionState, ...]:
    """Members of another make, all alive."""
    return tuple(SessionState(f"go-{number}", NOW, tuple(it)) for number, it in enumerate(shards))


def joined(replica_count: int, shard_count: int, sessions: Sequence[SessionState]) -> ShareDecision:
    return ShardAssignor(replica_count, shard_count, TIMEOUT).decide(sessions, V3ioMember("new"), NOW)


@pytest.mark.parametrize(
    ("replica_count", "shard_count", "expected"),
    [
        (3, 12, ["0-3", "4-7", "8-11"]),
        (3, 8, ["0-2", "3-4", "5-7"]),
        (3, 10, ["0-2", "3-6", "7-9"]),
        (4, 2, ["0", "", "1", ""]),
        (5, 3, ["0", "", "1", "", "2"]),
        (1, 4, ["0-3"]),
    ],
)
def test_shares_are_those_of_v3io_go(replica_count: int, shard_count: int, expected: list[str]) -> None:
    shares = cut(replica_count, shard_count)
    written = [f"{it[0]}-{it[-1]}" if len(it) > 1 else "".join(map(str, it)) for it in shares]
    assert written == expected


def test_shares_of_many_are_those_of_v3io_go() -> None:
    assert [len(it) for it in cut(10, 64)] == [6, 7, 6, 7, 6, 6, 7, 6, 7, 6]
    assert {len(it) for it in cut(32, 64)} == {2}


@given(st.integers(1, 200), st.integers(1, 500))
def test_every_shard_is_in_one_share(replica_count: int, shard_count: int) -> None:
    shares = cut(replica_count, shard_count)
    assert len(shares) == replica_count
    assert [shard for share in shares for shard in share] == list(range(shard_count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("replica_count", "shard_count", "taken", "expected"),
    [
        (4, 8, [[0, 1], [4, 5]], {2, 3}),
        (3, 8, [[0, 1, 2]], {3, 4}),
        (4, 4, [[0], [1], [3]], {2}),
        (4, 2, [[0], [1]], set()),
        (4, 2, [[], []], {0}),
        (2, 4, [[1], [2, 3]], {0}),  # of its share, another one still has shard 1
        (4, 2, [[], [0]], {1}),  # v3io-go would stand by here, and leave shard 1 to somebody else
    ],
)
def test_a_newcomer_takes_what_is_left(
    replica_count: int, shard_count: int, taken: list[list[int]], expected: set[int]
) -> None:
    verdict = joined(replica_count, shard_count, others(*taken))
    assert verdict.member is not None
    assert verdict.member.shards == expected


def test_where_each_share_has_a_member_a_newcomer_waits_and_writes_nothing_of_itself() -> None:
    verdict = joined(3, 12, others(range(4), range(4, 8), range(8, 12)))
    assert verdict.is_waiting
    assert "new" not in [session.member_id for session in verdict.sessions]


def test_a_stale_member_is_removed_and_its_share_taken() -> None:
    dead = SessionState("dead", NOW - TIMEOUT, (0, 1, 2, 3))
    verdict = joined(3, 12, (dead, *others(range(4, 8))))
    assert verdict.member is not None
    assert verdict.member.shards == {0, 1, 2, 3}
    assert "dead" not in [session.member_id for session in verdict.sessions]


def test_a_member_that_is_about_to_be_stale_keeps_its_share() -> None:
    verdict = joined(1, 4, (SessionState("late", NOW - TIMEOUT + 1, (0, 1, 2, 3)),))
    assert verdict.is_waiting


def test_an_idle_member_is_promoted_where_an_owner_is_gone() -> None:
    group = ShardAssignor(4, 2, TIMEOUT)
    idle = V3ioMember("idle", 1)
    session = SessionState("idle", NOW - SECOND, (), Share(1, 4))
    verdict = group.decide((session, *others([1])), idle, NOW)
    assert verdict.member == V3ioMember("idle", 0, frozenset({0}))


def test_a_wiped_state_gives_a_member_its_own_shards_again() -> None:
    group = ShardAssignor(3, 12, TIMEOUT)
    member = V3ioMember("m", 1, frozenset({4, 5, 6, 7}))
    verdict = group.decide((), member, NOW)
    assert verdict.member == member
    assert verdict.sessions == (SessionState("m", NOW, (4, 5, 6, 7), Share(1, 3)),)


def test_a_member_whose_shards_others_have_loses_all_of_them() -> None:
    group = ShardAssignor(3, 12, TIMEOUT)
    own = SessionState("m", NOW, (0, 1, 2, 3), Share(0, 3))
    thief = SessionState("thief", NOW, (3,))
    verdict = group.decide((own, thief), V3ioMember("m", 0, frozenset(range(4))), NOW)
    assert verdict.member is None
    assert verdict.sessions == (thief,)


def test_a_member_that_stops_takes_nothing_more() -> None:
    group = ShardAssignor(1, 4, TIMEOUT)
    kept = group.decide((), V3ioMember("m", 0, frozenset({0, 1})), NOW, takes_more=False)
    assert kept.member == V3ioMember("m", 0, frozenset({0, 1}))
    assert group.decide((), V3ioMember("m"), NOW, takes_more=False).is_waiting


class Replicas(RuleBasedStateMachine):
    """Members of several counts of replicas come, go, die and beat, in any order, over one state."""

    @initialize(shard_count=st.integers(1, 12))
    def begin(self, shard_count: int) -> None:
        self.shard_count = shard_count
        self.now = NOW
        self.state: tuple[SessionState, ...] = ()
        self.members: dict[str, tuple[V3ioMember, int]] = {}  # alive, with the count that each goes by
        self.made = 0

    @rule(replica_count=st.integers(1, 6))
    def join(self, replica_count: int) -> None:
        self.made += 1
        self.members[f"m{self.made}"] = (V3ioMember(f"m{self.made}"), replica_count)

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        if self.members:
            self.beat_of(data.draw(st.sampled_from(sorted(self.members))))

    def beat_of(self, name: str) -> None:
        member, count = self.members[name]
        verdict = ShardAssignor(count, self.shard_count, TIMEOUT).decide(self.state, member, self.now)
        if verdict.member is not None and not verdict.is_waiting:
            self.members[name] = (verdict.member, count)
            self.state = verdict.sessions
        assert verdict.member is not None, "nobody took what it has: all of its shards were in the state"

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        """All who are alive are renewed in time."""
        self.now += seconds * SECOND
        for name in sorted(self.members):
            self.beat_of(name)

    @rule(data=st.data(), is_clean=st.booleans())
    def go(self, data: st.DataObject, is_clean: bool) -> None:
        if self.members:
            name = data.draw(st.sampled_from(sorted(self.members)))
            del self.members[name]
            if is_clean:
                self.state = tuple(it for it in self.state if it.member_id != name)

    @invariant()
    def no_shard_has_two_owners(self) -> None:
        owned = [shard for member, _ in getattr(self, "members", {}).values() for shard in member.shards]
        assert len(owned) == len(set(owned))

    def teardown(self) -> None:
        """Whatever has been: once as many are there as one count says, each shard has an owner in 13 s."""
        if not hasattr(self, "members"):
            return
        count = 3
        self.members = {name: it for name, it in self.members.items() if it[1] == count}
        while len(self.members) < count:
            self.join(count)
        for _ in range(14):
            self.wait(1)
        owned = {shard for member, _ in self.members.values() for shard in member.shards}
        assert owned == set(range(self.shard_count))


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=examples(100), stateful_step_count=30)
