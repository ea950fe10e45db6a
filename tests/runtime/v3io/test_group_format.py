"""The state of a group, as v3io-go writes and reads it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.v3io.group_format import (
    SessionState,
    Share,
    StateError,
    decode_state,
    encode_state,
)

GOS = (
    '{"schema_version":"0.0.1","session_states":[{"member_id":"fn-c9q2","last_heartbeat_time":'
    '"2024-05-01T10:00:00.123456789+02:00","shards":[0,1,2,3]},{"member_id":"fn-c9q3",'
    '"last_heartbeat_time":"2024-05-01T08:00:01Z","shards":null}]}'
)
SHARES = st.builds(Share, st.integers(0, 10), st.integers(1, 10))
SESSIONS = st.builds(
    SessionState,
    st.text(min_size=1),
    st.integers(0, 4_000_000_000_000_000_000),
    st.frozensets(st.integers(0, 5000)).map(lambda shards: tuple(sorted(shards))),
    st.none() | SHARES,
)


def test_what_v3io_go_writes_is_read_to_the_nanosecond() -> None:
    first, second = decode_state(GOS)
    assert first == SessionState("fn-c9q2", 1_714_550_400_123_456_789, (0, 1, 2, 3))
    assert second == SessionState("fn-c9q3", 1_714_550_401_000_000_000, ())


def test_a_fraction_of_a_second_may_have_few_digits() -> None:
    for fraction, nanoseconds in (("5", 500_000_000), ("05", 50_000_000), ("123456", 123_456_000)):
        (first, _) = decode_state(GOS.replace("123456789", fraction))
        assert first.heartbeat_ns == 1_714_550_400_000_000_000 + nanoseconds


@given(st.lists(SESSIONS).map(tuple))
def test_what_is_written_is_read_again(sessions: tuple[SessionState, ...]) -> None:
    assert decode_state(encode_state(sessions)) == sessions


def test_what_is_written_is_in_the_form_that_v3io_go_reads() -> None:
    said = json.loads(encode_state([SessionState("m", 1_714_550_400_000_000_001, (0, 1), Share(0, 2))]))
    (session,) = said["session_states"]
    assert said["schema_version"] == "0.0.1"
    assert session["last_heartbeat_time"] == "2024-05-01T08:00:00.000000001Z"
    assert session["shards"] == [0, 1]


@pytest.mark.parametrize("text", ['{"schema_version":"0.0.1"}', '{"session_states":null}'])
def test_a_state_without_sessions_is_an_empty_group(text: str) -> None:
    assert decode_state(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"session_states":7}',
        '{"session_states":[7]}',
        '{"session_states":[{"member_id":"m"}]}',
        '{"session_states":[{"member_id":"m","last_heartbeat_time":"yesterday"}]}',
        '{"session_states":[{"member_id":"m","last_heartbeat_time":"2024-13-01T10:00:00Z"}]}',
        '{"session_states":[{"member_id":"m","last_heartbeat_time":"2024-05-01T10:00:00Z","shards":"0-3"}]}',
    ],
)
def test_what_is_no_state_is_refused_with_a_line(text: str) -> None:
    with pytest.raises(StateError) as refused:
        decode_state(text)
    assert "\n" not in str(refused.value)
