"""Go duration strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.settings.durations import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("-0", 0.0),
        ("300ms", 0.3),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("-1s", -1.0),
        ("+5s", 5.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        ("10\u03bcs", 1e-5),
        ("7ns", 7e-9),
        ("1m1m", 120.0),
        ("0.9ns", 0.0),
    ],
)
def test_go_durations_become_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("-", "is empty"),
        ("10", "number without a unit"),
        ("s", "without a number"),
        (".s", "without a number"),
        ("1 s", "unknown unit ' s'"),
        ("1d", "unknown unit 'd'"),
        ("1s-2s", "unknown unit 's-'"),
        ("300000000h", "292 years"),
        ("9" * 200 + "s", "at most 100 characters"),
    ],
)
def test_other_text_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(DurationError, match=says):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (300, "5m"), (5400, "1h30m"), (1.5, "1.5s"), (-2, "-2s"), (1e-6, "1us")],
)
def test_seconds_become_the_shortest_text(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=-(2**63) + 1024, max_value=2**63 - 1024))
def test_every_duration_survives_the_way_to_text_and_back(nanoseconds: int) -> None:
    seconds = nanoseconds / 10**9
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text(alphabet="0123456789.+-nuµmsh ", max_size=120) | st.text())
def test_any_text_is_a_duration_or_a_duration_error(text: str) -> None:
    try:
        parse_duration(text)
    except DurationError:
        return
