"""What a topic would do to a record that keeps an old timestamp, by what its broker says of it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.kafka.dead_letter_headers import FIRST_TIMESTAMP, split_first_timestamp
from headrace.runtime.kafka.dead_letter_replay import why_lost

NOW = 1_800_000_000_000
DAY = 86_400_000
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
DIFFERENCE = "message.timestamp.difference.max.ms"
UNLIMITED = str(2**63 - 1)


@pytest.mark.parametrize(
    ("age", "config", "why"),
    [
        (DAY, {}, None),
        (DAY, {"retention.ms": str(DAY)}, None),
        (DAY + 1, {"retention.ms": str(DAY)}, "would be deleted: retention.ms is 86400000"),
        (DAY + 1, {"retention.ms": "-1"}, None),
        (DAY + 1, {"retention.ms": "1", "cleanup.policy": "compact"}, None),
        (1, {"retention.ms": "0", "cleanup.policy": "compact,delete"}, "would be deleted: retention.ms is 0"),
        (DAY, {"retention.ms": "1", "message.timestamp.type": "LogAppendTime"}, None),
        (2, {BEFORE: "1"}, f"would be refused: {BEFORE} is 1"),
        (-2, {BEFORE: "1"}, None),
        (-2, {AFTER: "1"}, f"would be refused: {AFTER} is 1"),
        (2, {AFTER: "1"}, None),
        (2, {DIFFERENCE: "1"}, f"would be refused: {DIFFERENCE} is 1"),
        (-2, {DIFFERENCE: "1", BEFORE: "9"}, f"would be refused: {DIFFERENCE} is 1"),
        (2, {DIFFERENCE: "1", BEFORE: "9", AFTER: UNLIMITED}, None),
        (2, {DIFFERENCE: "1", BEFORE: UNLIMITED}, f"would be refused: {DIFFERENCE} is 1"),
    ],
)
def test_the_setting_that_loses_a_record_is_named(
    age: int, config: Mapping[str, str], why: str | None
) -> None:
    assert why_lost(NOW - age, NOW, config) == why


@given(st.lists(st.tuples(st.sampled_from([FIRST_TIMESTAMP, "own"]), st.none() | st.binary(max_size=22))))
def test_a_header_that_says_no_time_stays_the_records_own(headers: list[tuple[str, bytes | None]]) -> None:
    kept, first = split_first_timestamp(headers)
    if first is None:
        assert kept == headers
    else:
        assert 0 <= first < 2**63
        assert kept == [pair for pair in headers if pair[0] == "own"]


@pytest.mark.parametrize("value", [b"", None, b"-1", b"1.5", b"9" * 19, b"0" * 20 + b"1" * 5000])
def test_what_is_no_time_counts_as_none(value: bytes | None) -> None:
    assert split_first_timestamp([(FIRST_TIMESTAMP, value)]) == ([(FIRST_TIMESTAMP, value)], None)
