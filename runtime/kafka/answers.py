"""How large one answer of a broker may be. aiokafka takes whatever its first four bytes announce."""

from asyncio import StreamReader
from typing import Any

from aiokafka.conn import AIOKafkaConnection

from headrace.runtime.kafka.connecting import AnswerTooLargeError

MAX_BYTES = 1 << 28
"""Several times what a fetch takes, and less than any text that is taken for a length."""


class _BoundedReader(StreamReader):
    async def readexactly(self, n: int) -> bytes:
        """As it was. Raises AnswerTooLargeError."""
        if not 0 <= n <= MAX_BYTES:
            raise AnswerTooLargeError(f"an answer announces {n:,} bytes, of at most {MAX_BYTES:,}")
        return await super().readexactly(n)


def bound_answers() -> None:
    """From now on, on each new connection of this process."""
    connection: Any = AIOKafkaConnection
    begin = connection._create_reader_task  # noqa: SLF001
    if begin is not _read_bounded:
        connection.read_unbounded, connection._create_reader_task = begin, _read_bounded  # noqa: SLF001


def _read_bounded(connection: Any) -> Any:
    connection._reader.__class__ = _BoundedReader  # noqa: SLF001
    return connection.read_unbounded()
