"""A member as a state machine: what it says, and what it never does, against a coordinator in memory."""

from dataclasses import dataclass, field

from coordinator_model import FENCED, UNKNOWN, CoordinatorModel
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.group.kip848.machine import (
    JOIN,
    LEAVE,
    LEAVE_FOR_NOW,
    Heartbeat,
    HeartbeatAnswer,
    Machine,
    MemberState,
    TopicIdPartition,
)
from headrace.triggers.kafka.group.kip848.refusals import RefusalAction, action_after

ID, ID2 = b"a" * 16, b"b" * 16
NAMES = {ID: "orders"}
ORDERS = frozenset({"orders"})


def _parts(*numbers: int, topic: bytes = ID) -> frozenset[TopicIdPartition]:
    return frozenset((topic, number) for number in numbers)


def _keys(*numbers: int) -> frozenset[PartitionKey]:
    return frozenset(PartitionKey("orders", number) for number in numbers)


def _answer(epoch: int, assigned: frozenset[TopicIdPartition] | None = None) -> HeartbeatAnswer:
    return HeartbeatAnswer(0, "", epoch, 3.0, assigned)


def _joined(*numbers: int, is_static: bool = False) -> Machine:
    machine = Machine(is_static=is_static)
    machine.subscribe(["orders"])
    beat = machine.next_heartbeat()
    assert beat is not None
    machine.answered(beat, _answer(1, _parts(*numbers)))
    assert machine.move(NAMES).given == _keys(*numbers)
    return machine


def _beat(machine: Machine, epoch: int, assigned: frozenset[TopicIdPartition] | None = None) -> None:
    beat = machine.next_heartbeat()
    assert beat is not None
    machine.answered(beat, _answer(epoch, assigned))


def test_nothing_is_said_before_it_has_topics() -> None:
    machine = Machine(is_static=False)
    assert machine.state is MemberState.UNSUBSCRIBED
    assert machine.next_heartbeat() is None


def test_a_join_says_everything_and_owns_nothing() -> None:
    machine = Machine(is_static=False)
    machine.subscribe(["orders"])
    beat = machine.next_heartbeat()
    assert machine.state is MemberState.JOINING
    assert beat is not None
    assert (beat.epoch, beat.topics, beat.owned, beat.is_full) == (JOIN, ORDERS, frozenset(), True)


def test_what_was_given_is_named_as_owned_once() -> None:
    machine = _joined(0, 1)
    assert machine.is_heartbeat_due
    beat = machine.next_heartbeat()
    assert beat is not None
    assert (beat.epoch, beat.topics, beat.owned) == (1, None, _parts(0, 1))
    machine.answered(beat, _answer(1))
    assert machine.state is MemberState.STABLE
    again = machine.next_heartbeat()
    assert again is not None
    assert again.owned is None


def test_what_is_revoked_stays_owned_until_it_is_released() -> None:
    machine = _joined(0, 1)
    _beat(machine, 1)
    _beat(machine, 1, _parts(0))
    assert machine.move(NAMES).revoked == _keys(1)
    assert machine.state is MemberState.RECONCILING
    assert machine.next_heartbeat() == Heartbeat(1)
    machine.released(_keys(1))
    beat = machine.next_heartbeat()
    assert beat is not None
    assert beat.owned == _parts(0)


def test_a_topic_without_a_name_is_waited_for() -> None:
    machine = _joined()
    _beat(machine, 2, _parts(0) | _parts(3, topic=ID2))
    assert machine.move(NAMES).given == _keys(0)
    assert machine.holdings.unnamed == {ID2}
    assert machine.move({**NAMES, ID2: "later"}).given == {PartitionKey("later", 3)}


def test_a_topic_made_anew_comes_after_the_one_before_has_gone() -> None:
    machine = _joined(0)
    _beat(machine, 2, _parts(0, topic=ID2))
    moves = machine.move({ID2: "orders"})
    assert (moves.revoked, moves.given) == (_keys(0), frozenset())
    machine.released(_keys(0))
    assert machine.move({ID2: "orders"}).given == _keys(0)


def test_a_fenced_member_joins_again_once_all_is_released() -> None:
    machine = _joined(0, 1)
    assert machine.fenced() == _keys(0, 1)
    assert machine.state is MemberState.FENCED
    assert machine.next_heartbeat() is None
    machine.released(_keys(0, 1))
    beat = machine.next_heartbeat()
    assert beat is not None
    assert (beat.epoch, beat.owned, machine.membership) == (JOIN, frozenset(), 2)


def test_after_an_unheard_answer_all_is_said_again() -> None:
    machine = _joined(0)
    _beat(machine, 1)
    machine.answer_lost()
    beat = machine.next_heartbeat()
    assert beat is not None
    assert (beat.epoch, beat.topics, beat.owned, beat.is_full) == (1, ORDERS, _parts(0), True)


def test_other_topics_are_said_at_once() -> None:
    machine = _joined(0)
    _beat(machine, 1)
    machine.subscribe(["orders", "more"])
    assert machine.is_heartbeat_due
    beat = machine.next_heartbeat()
    assert beat is not None
    assert beat.topics == ORDERS | {"more"}


def test_a_static_member_leaves_for_now() -> None:
    for is_static, epoch in ((False, LEAVE), (True, LEAVE_FOR_NOW)):
        machine = _joined(0, is_static=is_static)
        assert machine.leave()
        beat = machine.next_heartbeat()
        assert beat is not None
        assert beat.epoch == epoch


def test_who_was_no_member_has_nobody_to_leave() -> None:
    assert not Machine(is_static=False).leave()


@given(st.integers(-5, 200))
def test_each_refusal_has_a_verdict(code: int) -> None:
    assert action_after(code) in RefusalAction


PARTS = tuple((ID, number) for number in range(6))


@dataclass
class Running:
    """A member, and what it delivers."""

    machine: Machine = field(default_factory=lambda: Machine(is_static=False))
    delivered: set[PartitionKey] = field(default_factory=set)
    """Given, and neither released nor lost."""
    draining: set[PartitionKey] = field(default_factory=set)


class Groups(RuleBasedStateMachine):
    """Members join, leave, are expelled, drain in any order; answers get lost."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = CoordinatorModel(PARTS)
        self.running: dict[str, Running] = {}
        self.count = 0

    @rule()
    def join(self) -> None:
        if len(self.running) < 4:
            self.count += 1
            member = self.running[f"m{self.count}"] = Running()
            member.machine.subscribe(["orders"])

    @rule(pick=st.integers(0, 3), is_lost=st.booleans())
    def beat(self, pick: int, is_lost: bool) -> None:
        if self.running:
            name = sorted(self.running)[pick % len(self.running)]
            self._beat(name, is_lost=is_lost)

    def _beat(self, name: str, *, is_lost: bool = False) -> None:
        member = self.running[name]
        machine = member.machine
        if (sent := machine.next_heartbeat()) is None:
            return
        answer = self.coordinator.heartbeat(name, sent)
        if is_lost:
            machine.answer_lost()
        elif answer.error_code in {FENCED, UNKNOWN}:
            member.delivered.clear()  # its workers are killed
            member.draining |= machine.fenced()
        else:
            machine.answered(sent, answer)
            moves = machine.move(NAMES)
            member.draining |= moves.revoked
            assert not member.delivered & moves.given
            member.delivered |= moves.given

    @rule(pick=st.integers(0, 3), which=st.integers(0, 5))
    def drained(self, pick: int, which: int) -> None:
        if self.running:
            self._drain(sorted(self.running)[pick % len(self.running)], which)

    def _drain(self, name: str, which: int) -> None:
        member = self.running[name]
        if member.draining:
            key = sorted(member.draining)[which % len(member.draining)]
            member.draining.discard(key)
            member.delivered.discard(key)
            member.machine.released([key])

    @rule(pick=st.integers(0, 3))
    def leave(self, pick: int) -> None:
        if self.running:
            name = sorted(self.running)[pick % len(self.running)]
            machine = self.running.pop(name).machine
            if machine.leave() and (beat := machine.next_heartbeat()) is not None:
                self.coordinator.heartbeat(name, beat)

    @rule(pick=st.integers(0, 3))
    def expel(self, pick: int) -> None:
        """It hears of it later; until then its lease has ended, and it starts nothing."""
        if self.running:
            name = sorted(self.running)[pick % len(self.running)]
            self.coordinator.expel(name)
            self.running[name].delivered.clear()

    @rule()
    def settle(self) -> None:
        """Left alone, everybody gets what is meant for them."""
        for _ in range(12):
            for name, member in self.running.items():
                while member.draining:
                    self._drain(name, 0)
                self._beat(name)
        held = [key for it in self.running.values() for key in it.machine.holdings.held]
        assert sorted(held) == (sorted(_keys(*range(6))) if self.running else [])
        for member in self.running.values():
            assert member.machine.state is MemberState.STABLE
            assert member.delivered == set(member.machine.holdings.held)

    @invariant()
    def nobody_delivers_what_another_one_does(self) -> None:
        delivered = [key for member in self.running.values() for key in member.delivered]
        assert len(delivered) == len(set(delivered))


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=examples(150), stateful_step_count=60)
