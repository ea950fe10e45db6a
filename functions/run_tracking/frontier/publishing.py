"""What clients say, into data-ingestion: confirmed by the broker, or refused in time, and never piled up."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

_ROOM_BYTES = 512 * 1024
"""On their way at once. `context.produce` blocks at 1 MiB of a worker's, and this event loop with it."""
_DOUBTFUL_SECONDS = 3.0
"""What the broker hasn't confirmed by then: it is away, or nearly."""


class PublishError(Exception):
    """Not everything is in the topic. One line for the client, who may send all of it again."""


class Produce(Protocol):
    """`context.produce`."""

    def __call__(self, topic: str, value: bytes, *, key: str, output: str) -> Any: ...


class ItemPublisher:
    """Used on one event loop."""

    def __init__(self, produce: Produce, topic: str, output: str, timeout_seconds: float) -> None:
        self._produce, self._topic, self._output = produce, topic, output
        self._timeout_seconds = timeout_seconds
        self._open: dict[asyncio.Task[None], tuple[float, int]] = {}
        """Since when, and how many bytes."""
        self._open_bytes = 0
        self._has_ended = asyncio.Condition()

    @property
    def oldest_seconds(self) -> float:
        """How long the broker has had what it hasn't confirmed."""
        return time.monotonic() - min(since for since, _ in self._open.values()) if self._open else 0.0

    async def publish(self, run_id: str, values: Sequence[bytes]) -> None:
        """In order, with the run's id as their key; returns once the broker has all.

        Raises PublishError after the timeout, and at once while older ones have waited for too long. What
        wasn't confirmed by then may be written nevertheless, so a client may send again what is there.
        """
        if self.oldest_seconds > _DOUBTFUL_SECONDS:
            raise PublishError("Kafka is away: send it again")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                for part in _parts(values):
                    await asyncio.shield(await self._send(run_id, part))
        except TimeoutError:
            raise PublishError("Kafka has not confirmed it in time: send it again") from None
        except Exception as error:  # what ProduceError says of the message, or of the topic
            raise PublishError(f"it can't be written: {error}") from None

    async def _send(self, run_id: str, values: Sequence[bytes]) -> asyncio.Task[None]:
        size = sum(map(len, values))
        async with self._has_ended:
            await self._has_ended.wait_for(lambda: not self._open or self._open_bytes + size <= _ROOM_BYTES)
        on_their_way = [
            self._produce(self._topic, value, key=run_id, output=self._output) for value in values
        ]
        task = asyncio.create_task(self._confirm(on_their_way))
        task.add_done_callback(asyncio.Task.exception)  # asked for, where the client has been told before
        self._open[task] = time.monotonic(), size
        self._open_bytes += size
        return task

    async def _confirm(self, on_their_way: Sequence[Any]) -> None:
        """They have one key, so one partition: once the last one has ended, so have all before it."""
        try:
            *before, last = on_their_way
            await last
            for one in before:
                one.result()
        finally:
            own = asyncio.current_task()
            assert own is not None
            _, size = self._open.pop(own)
            self._open_bytes -= size
            async with self._has_ended:
                self._has_ended.notify_all()


def _parts(values: Sequence[bytes]) -> list[list[bytes]]:
    """As many as have room at once; one that is larger than that goes alone."""
    parts: list[list[bytes]] = []
    room = 0
    for value in values:
        if len(value) > room:
            parts.append([])
            room = _ROOM_BYTES
        parts[-1].append(value)
        room -= len(value)
    return parts
