"""The line of a failure that says what it is, of what Python prints."""

import traceback
from collections.abc import Callable

import pytest

from headrace.runtime.partitions.offsets.failed_records import FailedRecord
from headrace.runtime.partitions.offsets.failure_text import in_one_line


class ValidationError(ValueError):
    def __str__(self) -> str:
        return (
            "2 validation errors for Order\nid\n  Field required [type=missing]\n"
            "    For further information visit https://errors.pydantic.dev/2.10/v/missing"
        )


def raised(code: Callable[[], object]) -> str:
    try:
        code()
    except BaseException as error:
        return "".join(traceback.format_exception(error)).rstrip()
    raise AssertionError("it raises")


def several_lines() -> None:
    raise ValidationError


def while_another_is_handled() -> None:
    try:
        several_lines()
    except ValidationError:
        raise KeyError("no such\ncustomer") from None


def because_of_another() -> None:
    try:
        several_lines()
    except ValidationError as error:
        raise RuntimeError("first line\nlast line") from error


def a_group() -> None:
    raise ExceptionGroup("two went wrong", [ValueError("one"), KeyError("two")])


def code_that_is_none() -> None:
    compile("a b", "orders.py", "exec")


def with_a_note() -> None:
    error = ValueError("no")
    error.add_note("https://example.org/")
    raise error


VALIDATION = f"{__name__}.ValidationError: 2 validation errors for Order"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (several_lines, VALIDATION),
        (while_another_is_handled, "KeyError: 'no such\\ncustomer'"),
        (because_of_another, "RuntimeError: first line"),
        (a_group, "ExceptionGroup: two went wrong (2 sub-exceptions)"),
        (code_that_is_none, "SyntaxError: invalid syntax"),
        (with_a_note, "ValueError: no"),
    ],
)
def test_a_traceback_is_named_by_its_exception(code: Callable[[], object], line: str) -> None:
    assert in_one_line(raised(code)) == line
    assert FailedRecord(reason=raised(code)).reason_in_one_line == line


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (
            "worker 0 died while running it (signal SIGKILL)",
            "worker 0 died while running it (signal SIGKILL)",
        ),
        ("it ran past eventTimeout:\nTraceback (most recent call last):\nX", "it ran past eventTimeout"),
        (f"{VALIDATION}\nid\n  https://errors.pydantic.dev", VALIDATION),
        ("Traceback (most recent call last):\n  File", "  File"),
        ("\n\n", ""),
        ("", ""),
    ],
)
def test_another_text_is_named_by_its_first_line(reason: str, line: str) -> None:
    assert in_one_line(reason) == line
