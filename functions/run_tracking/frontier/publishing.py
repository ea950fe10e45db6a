"""Publishing of clients' items to data-ingestion: confirmed by the broker, or refused in time."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

_MAX_UNCONFIRMED_BYTES = 512 * 1024
"""Most unconfirmed bytes. `context.produce` would block this event loop at 1 MiB of a worker's."""
_STALE_SECONDS = 3.0
"""Age of an unconfirmed message from which the broker counts as away."""


class PublishError(Exception):
    """Not all of a frame is in the topic. One line for the client, which may send the frame again."""


class ItemPublisher:
    """Publishes items of all connections. Used on one event loop."""

    def __init__(self, produce: Callable[..., Any], topic: str, output: str, timeout_seconds: float) -> None:
        self._produce, self._topic, self._output = produce, topic, output
        self._timeout_seconds = timeout_seconds
        self._open: dict[asyncio.Task[None], tuple[float, int]] = {}
        """Start time and bytes of each part that isn't confirmed."""
        self._open_bytes = 0
        self._has_ended = asyncio.Condition()

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest message that the broker hasn't confirmed; 0 if there is none."""
        return time.monotonic() - min(since for since, _ in self._open.values()) if self._open else 0.0

    async def publish(self, run_id: str, values: Sequence[bytes]) -> None:
        """Publish `values` in order, keyed by the run's id; return once the broker has confirmed all.

        Raises PublishError after the timeout, and at once while older messages have waited for too long. What
        wasn't confirmed by then may be written nevertheless; items that are sent again count once.
        """
        # Refused at once: clients would only pile up here, each waiting for its timeout.
        if self.oldest_seconds > _STALE_SECONDS:
            raise PublishError("Kafka is away: send it again")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                for part in _parts(values):
                    # Shielded: what is on its way counts as open until it is confirmed, whoever gives up.
                    await asyncio.shield(await self._send(run_id, part))
        except TimeoutError:
            raise PublishError("Kafka has not confirmed it in time: send it again") from None
        except Exception as error:  # ProduceError, about the message or its topic
            raise PublishError(f"it can't be written: {error}") from None

    async def _send(self, run_id: str, values: Sequence[bytes]) -> asyncio.Task[None]:
        size = sum(map(len, values))
        async with self._has_ended:
            await self._has_ended.wait_for(
                lambda: not self._open or self._open_bytes + size <= _MAX_UNCONFIRMED_BYTES
            )
        on_their_way = [
            self._produce(self._topic, value, key=run_id, output=self._output) for value in values
        ]
        task = asyncio.create_task(self._confirm(on_their_way))
        # Its exception counts as retrieved even where nobody awaits it any more, after a timeout.
        task.add_done_callback(asyncio.Task.exception)
        self._open[task] = time.monotonic(), size
        self._open_bytes += size
        return task

    async def _confirm(self, on_their_way: Sequence[Any]) -> None:
        """Wait for the last: with one key they have one partition, so all others have ended then."""
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
    """Split `values` into parts of at most _MAX_UNCONFIRMED_BYTES; a larger value is a part by itself."""
    parts: list[list[bytes]] = []
    left = 0
    for value in values:
        if len(value) > left:
            parts.append([])
            left = _MAX_UNCONFIRMED_BYTES
        parts[-1].append(value)
        left -= len(value)
    return parts
