"""Why a client could not connect: aiokafka says it to its log only, and raises the same error for all."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


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
