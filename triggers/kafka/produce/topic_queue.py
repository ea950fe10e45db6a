"""Messages for one topic, in order: those that wait, and those that have to go once more."""

import asyncio
from collections import deque
from collections.abc import Iterator

from headrace.runtime.wire.produce import Outgoing
from headrace.triggers.kafka.produce.packing import MessageBatch, Waiting

SILENT_SECONDS = 0.5


class TopicQueue:
    """Messages of one topic: those that wait, those that are open, those that have to be sent again.

    What has to be sent again goes before what came after it, once nothing of its topic is on its way. Its
    owner sends from one task at a time.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.waiting: Waiting = deque()
        self.packed: deque[MessageBatch] = deque()
        """Batches that are sent next, once there is room."""
        self.alone = 0
        """The number of waiting messages that go in a batch each: one of them had its batch refused."""
        self.sender: object = None
        """The producer of the last batch: what another one sends might overtake it."""
        self.is_sending = False
        self._open: set[MessageBatch] = set()
        self._to_resend: list[MessageBatch] = []
        self._last_event = asyncio.get_running_loop().time()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def has_more(self) -> bool:
        """Whether anything is to be sent."""
        return bool(self.waiting or self._to_resend)

    @property
    def must_resend(self) -> bool:
        """Whether something has to be sent again: nothing may go before it."""
        return bool(self._to_resend)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the topic is anywhere."""
        return not (self.has_more or self._open or self.is_sending)

    @property
    def is_silent(self) -> bool:
        """Whether nothing has become of any of it for a while."""
        return asyncio.get_running_loop().time() - self._last_event >= SILENT_SECONDS

    def unwritten(self) -> Iterator[Outgoing]:
        """Yield all of its messages, in no order."""
        for batch in (*self._open, *self._to_resend, *self.packed):
            yield from batch.messages
        yield from self.waiting

    def on_sent(self, batch: MessageBatch) -> None:
        """Note that a batch is on its way."""
        self._open.add(batch)
        self._is_idle.clear()

    def on_ended(self, batch: MessageBatch) -> None:
        """Note that a batch's outcome is known."""
        self._open.discard(batch)
        self._last_event = asyncio.get_running_loop().time()
        if not self._open:
            self._is_idle.set()

    def resend_later(self, batch: MessageBatch) -> None:
        """Keep a batch whose messages have to be sent again."""
        self._to_resend.append(batch)

    async def requeue(self) -> None:
        """Wait until nothing is on its way, then put what has to be sent again before all else."""
        await self._is_idle.wait()
        # In the order in which they were packed: batches fail in any order.
        again, self._to_resend = sorted(self._to_resend, key=lambda batch: batch.number), []
        messages = [outgoing for batch in again for outgoing in batch.messages]
        if any(batch.must_split for batch in again):
            self.alone = max(self.alone, len(messages))
        self.waiting.extendleft(reversed(messages))
