"""How clients of aiokafka connect: a start that leaves nothing open, and why one could not be made.

aiokafka says that to its log only, and raises the same error for all.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.runtime.kafka.not_a_broker import NotABrokerError, address
from headrace.runtime.tasks import run_to_end

_LAST_ANSWER_SECONDS = 1.0
# How those lines of aiokafka's log begin that tell of a failed connection.
_FAILURES = ("Unable connect", "Unable to request metadata")
_HOST_AND_PORT = 2


async def start_client(client: Any) -> None:
    """Start an aiokafka client. The caller still has to stop it, even where this fails.

    A cancelled start waits a second for an answer that is on its way: aiokafka forgets the connection on
    which it waits for that, and the connection stays open until cycles are collected.
    """
    await run_to_end(client.start(), _LAST_ANSWER_SECONDS)


class ConnectErrors(logging.Handler):
    """Causes of failed connections, taken from aiokafka's log.

    `last` is the cause that was heard last, `by_address` has those of addresses that were tried first.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: BaseException | None = None
        self.by_address: dict[str, BaseException] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Note the exception: the line's last argument, behind host and port, or a broker's id."""
        # aiokafka raises one error for all causes, and says the cause to its log only.
        if not str(record.msg).startswith(_FAILURES) or not isinstance(record.args, tuple):
            return
        *where, error = record.args
        if not isinstance(error, BaseException):
            return
        cause = error.__cause__
        self.last = cause if isinstance(cause, NotABrokerError) else error
        if len(where) == _HOST_AND_PORT:
            self.by_address[address(*where)] = self.last


@contextmanager
def connect_errors() -> Iterator[ConnectErrors]:
    """Collect the causes of failed connections while the context lasts."""
    heard = ConnectErrors()
    client_logger = logging.getLogger("aiokafka")
    client_logger.addHandler(heard)
    try:
        yield heard
    finally:
        client_logger.removeHandler(heard)
