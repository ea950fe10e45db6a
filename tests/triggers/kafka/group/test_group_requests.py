"""ConsumerGroupHeartbeat as bytes, when the next one is due, and until when the group keeps a member."""

from io import BytesIO
from typing import Any

from headrace.triggers.kafka.group.kip848.machine import GroupSettings, Heartbeat, SessionDeadline
from headrace.triggers.kafka.group.kip848.refusals import RefusalAction, action_after, message_for
from headrace.triggers.kafka.group.kip848.requests import (
    HeartbeatRequest,
    HeartbeatResponse,
    HeartbeatStruct,
    read_answer,
)

ID = bytes(range(16))
SETTINGS = GroupSettings("g", 60.0, "range", "box-1")


def _sent(heartbeat: Heartbeat) -> Any:
    encoded = HeartbeatRequest(SETTINGS, "me", heartbeat).build(HeartbeatStruct).encode()
    return HeartbeatStruct.decode(BytesIO(encoded))


def test_a_full_heartbeat_says_all() -> None:
    sent = _sent(Heartbeat(0, frozenset({"b", "a"}), frozenset({(ID, 2), (ID, 1)}), is_full=True))
    assert (sent.group_id, sent.member_id, sent.instance_id) == ("g", "me", "box-1")
    assert (sent.rebalance_timeout_ms, sent.server_assignor) == (60_000, "range")
    assert sent.subscribed_topic_names == ["a", "b"]
    assert sent.topic_partitions == [(ID, [1, 2], {})]


def test_what_has_not_changed_is_left_out() -> None:
    sent = _sent(Heartbeat(7))
    assert sent.member_epoch == 7
    assert sent.rebalance_timeout_ms == -1
    assert (sent.subscribed_topic_names, sent.topic_partitions, sent.server_assignor) == (None, None, None)


def test_an_answer_may_say_nothing_of_partitions() -> None:
    for assignment, assigned in ((None, None), (([(ID, [0, 3], {})], {}), {(ID, 0), (ID, 3)})):
        encoded = HeartbeatResponse(0, 0, None, "me", 4, 5000, assignment, {}).encode()
        answer = read_answer(HeartbeatResponse.decode(BytesIO(encoded)))
        assert (answer.epoch, answer.interval_seconds, answer.assigned) == (4, 5.0, assigned)


def test_a_session_ends_earlier_where_something_is_not_released() -> None:
    end = SessionDeadline(rebalance_timeout_seconds=60.0)
    end.session_seconds = 45.0
    second = 10**9
    for sent, is_revoking, ends in ((0, False, 45), (10, False, 55), (40, True, 70), (50, False, 95)):
        end.sent(sent * second, is_revoking=is_revoking)
        assert end.answered() == ends * second


def test_what_an_answer_that_never_came_may_have_revoked_counts_from_then() -> None:
    end = SessionDeadline(rebalance_timeout_seconds=30.0)
    end.session_seconds = 45.0
    second = 10**9
    end.sent(0, is_revoking=False)
    end.answered()
    for sent in (5, 10, 15):
        end.sent(sent * second, is_revoking=False)
    assert end.answered() == (5 + 30) * second
    end.sent(20 * second, is_revoking=True)
    assert end.answered() == (5 + 30) * second


def test_what_a_user_can_mend_is_said() -> None:
    assert action_after(69) is RefusalAction.END
    assert "protocol classic" in message_for(69, "", SETTINGS, "b:1")
    assert "uniform" in message_for(112, "only uniform", SETTINGS, "b:1")
    assert action_after(111) is RefusalAction.WAIT
    assert "box-1" in message_for(111, "", SETTINGS, "b:1")
    assert action_after(16) is RefusalAction.RETRY
    assert "not the coordinator" in message_for(16, "not the coordinator", SETTINGS, "b:1")
