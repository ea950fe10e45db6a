"""The lines of the log that the admin server's page shows."""

import logging

from headrace.runtime.log import LogTail


class SaslAuthenticateRequest_v1:  # noqa: N801  # as aiokafka calls it
    def __repr__(self) -> str:
        return "hush"


class Unshowable:
    def __str__(self) -> str:
        raise KeyError("x")


def record(message: str, *args: object, name: str = "aiokafka.conn") -> logging.LogRecord:
    return logging.LogRecord(name, logging.DEBUG, "", 0, message, args, None)


def test_what_signs_in_is_never_kept() -> None:
    tail = LogTail()
    tail.handle(record("Request %d: %s", 1, SaslAuthenticateRequest_v1()))
    tail.handle(record("Request %d: %s", 2, "Metadata"))
    assert [line["text"] for line in tail.lines()] == ["Request 2: Metadata"]


def test_a_line_that_cannot_be_shown_is_left_out() -> None:
    tail = LogTail()
    tail.handle(record("%s", Unshowable()))
    tail.handle(record("%d", "no number"))
    assert tail.lines() == []
