"""Answers of a coordinator that no coordinator gives: a value, or our one error; nothing spins or is lost."""

import asyncio
import logging
from io import BytesIO
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, RequestTimedOutError
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.kafka.guarded_connections import guard_connections
from headrace.runtime.partitions.key import PartitionKey
from headrace.triggers.kafka.client.topics import TopicDescription
from headrace.triggers.kafka.group.kip848.coordinator import Coordinator
from headrace.triggers.kafka.group.kip848.machine import HeartbeatAnswer, Machine, PartitionMoves
from headrace.triggers.kafka.group.kip848.move_history import MoveHistory
from headrace.triggers.kafka.group.kip848.refusals import RefusalAction, action_after
from headrace.triggers.kafka.group.kip848.requests import (
    FetchCommitsResponse,
    HeartbeatResponse,
    read_answer,
    read_commits,
)
from headrace.triggers.kafka.group.kip848.session import UnnamedTopics
from headrace.triggers.kafka.start_offsets import _is_readable

guard_connections()
GIVEN: Any = ([(b"\1" * 16, "t", [0], {})], {})
NOBODY: Any = ("m", None, None, 1, "client", None, [], None, GIVEN, GIVEN)
"""A member without a host."""
IDS = st.sampled_from([bytes(16), b"\1" * 16, b"\2" * 16])
numbers = st.integers(-2, 4) | st.integers(-(2**31), 2**31 - 1)
assignments: st.SearchStrategy[Any] = st.none() | st.tuples(
    st.lists(st.tuples(IDS, st.lists(numbers, max_size=4), st.just({})), max_size=3), st.just({})
)
answers = st.builds(
    lambda *fields: HeartbeatResponse(0, *fields, {}),
    st.sampled_from([0, 0, 0, 25, 110, 113, -1, 32767]),
    st.none() | st.text(max_size=5),
    st.none() | st.text(max_size=5),
    numbers,
    numbers,
    assignments,
)


def read(answer: Any) -> HeartbeatAnswer | KafkaError:
    try:
        return read_answer(HeartbeatResponse.decode(BytesIO(answer.encode())))
    except KafkaError as error:
        return error


@settings(max_examples=examples(400), deadline=None)
@given(said=st.lists(answers, max_size=6))
def test_a_member_stays_one_whatever_it_is_answered(said: list[Any]) -> None:
    names = {b"\1" * 16: "t"}
    machine = Machine(is_static=False)
    machine.subscribe({"t"})
    for each in said:
        heartbeat = machine.next_heartbeat()
        assert heartbeat is not None
        found = read(each)
        if isinstance(found, KafkaError):
            machine.answer_lost()
            continue
        assert found.interval_seconds >= 0.05
        if found.error_code:
            assert isinstance(action_after(found.error_code), RefusalAction)
            machine.answer_lost()
            continue
        machine.answered(heartbeat, found)
        moves = machine.move(names)
        machine.released(moves.revoked)
        assert machine.epoch > 0, "below that it would leave, or join, by its next heartbeat"
        held = machine.holdings.held
        assert all(key.topic == "t" and key.partition >= 0 for key in held)
        assert set(held.values()) <= machine.holdings.target


def test_commits_of_another_group_are_not_ours() -> None:
    rows: list[Any] = [("t", [(0, 7, -1, "", 0, {})], {})]
    response = FetchCommitsResponse(0, [("other", rows, 16, {}), ("g", [], 0, {})], {})
    assert read_commits(response, "g") == (0, {})


@pytest.mark.parametrize("number", [-1, 8, 2**31 - 1])
def test_a_partition_that_is_not_there_holds_no_other_up(number: int) -> None:
    topic = TopicDescription("id", 8, frozenset())

    class Group:
        def given_id(self, _: PartitionKey) -> None:
            return None

    assert not _is_readable(TopicPartition("t", number), topic, Group())  # type: ignore[arg-type]
    assert _is_readable(TopicPartition("t", 7), topic, Group())  # type: ignore[arg-type]


def test_ids_without_a_name_are_said_once_they_have_had_their_time(caplog: pytest.LogCaptureFixture) -> None:
    nameless, second = UnnamedTopics("g"), 10**9
    for now in (0, 4, 6, 8):
        nameless.look(frozenset({b"\1" * 16}), now * second)
        assert len(caplog.messages) == (now > 5)
    assert caplog.messages[0].startswith(
        "group g gives partitions of 1 topics by ids that no broker has a name"
    )
    nameless.look(frozenset(), 9 * second)
    nameless.look(frozenset({b"\1" * 16}), 10 * second)
    assert len(caplog.messages) == 1


class Client:
    """Answers with each of these in turn, which may be errors."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self._client = self
        self.cluster = self
        self._conns: dict[Any, Any] = {}

    async def coordinator_lookup(self, *_: object) -> int:
        return 1

    def broker_metadata(self, _: int) -> object:
        return object()

    async def send(self, *_: object, **__: object) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_connection_that_the_broker_has_ended_is_made_anew_once() -> None:
    coordinator = Coordinator(Client(KafkaConnectionError(), "answer"), "g")
    assert await coordinator.send("request") == "answer"
    coordinator = Coordinator(Client(*[KafkaConnectionError()] * 2, "late"), "g")
    with pytest.raises(KafkaConnectionError):
        await coordinator.send("request")
    with pytest.raises(RequestTimedOutError):
        await Coordinator(Client(TimeoutError()), "g").send("request")


@pytest.mark.parametrize("groups", [[], [()], [(0, "", "g", "", 1, 1, "", [NOBODY])]])
async def test_who_is_in_a_group_may_be_told_by_anything(
    groups: list[Any], caplog: pytest.LogCaptureFixture
) -> None:

    class Asked:
        groups: list[Any]

        async def ask_in_background(self, _: object) -> Any:
            return self

    asked = Asked()
    asked.groups = groups
    neighbours = MoveHistory(asked, "g", lambda: "me")  # type: ignore[arg-type]
    neighbours.on_changed(PartitionMoves())
    (look,) = neighbours._tasks
    await asyncio.wait([look])
    assert look.exception() is None
    assert not [it for it in caplog.records if it.levelno > logging.INFO]
