"""How clients of aiokafka connect: a start that leaves nothing open, and why one could not be made.

aiokafka says that to its log only, and raises the same error for all.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.runtime.tasks import run_to_end

_LAST_ANSWER_SECONDS = 1.0


async def start_client(client: Any) -> None:
    """As `client.start()`, which the caller still has to follow by a stop, even where it fails.

    A cancelled one waits a second for an answer that is on its way: aiokafka forgets the connection on which
    it waits for that, and the connection stays open until cycles are collected.
    """
    await run_to_end(client.start(), _LAST_ANSWER_SECONDS)


class AnswerTooLargeError(ConnectionError):
    """Whoever answers announces more than any answer is. The connection is closed."""


class ConnectErrors(logging.Handler):
    """`last` is the cause that was heard last."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """The exception is the line's last argument."""
        if str(record.msg).startswith("Unable connect") and isinstance(record.args, tuple):
            error = record.args[-1]
            self.last = error if isinstance(error, BaseException) else None
            if self.last is not None and isinstance(self.last.__cause__, AnswerTooLargeError):
                self.last = self.last.__cause__


@contextmanager
def connect_errors() -> Iterator[ConnectErrors]:
    """Listens while the context lasts."""
    heard = ConnectErrors()
    client_logger = logging.getLogger("aiokafka")
    client_logger.addHandler(heard)
    try:
        yield heard
    finally:
        client_logger.removeHandler(heard)
