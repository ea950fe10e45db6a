"""Messages for one topic, in order: those that wait, and those that have to go once more."""

import asyncio
from collections import deque
from collections.abc import Iterator

from headrace.runtime.partitions.offsets.pending_produces import Outgoing
from headrace.triggers.kafka.produce.packing import MessageBatch, Waiting

SILENT_SECONDS = 0.5


class TopicQueue:
    """What has to go once more goes before what came after it, once nothing of its topic is on its way.

    Its owner sends from one task at a time.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.waiting: Waiting = deque()
        self.packed: deque[MessageBatch] = deque()
        """Those that are sent next, once there is room."""
        self.alone = 0
        """So many of those that wait go in a batch each: one of them had its batch refused."""
        self.sender: object = None
        """By whom the last batch was sent: what another one sends might overtake it."""
        self.is_sending = False
        self._open: set[MessageBatch] = set()
        self._again: list[MessageBatch] = []
        self._last_news = asyncio.get_running_loop().time()
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()

    @property
    def has_more(self) -> bool:
        """Something is to be sent."""
        return bool(self.waiting or self._again)

    @property
    def is_broken_off(self) -> bool:
        """Something is to go once more: nothing may go before it."""
        return bool(self._again)

    @property
    def is_over(self) -> bool:
        """Nothing of it is anywhere."""
        return not (self.has_more or self._open or self.is_sending)

    @property
    def is_silent(self) -> bool:
        """Nothing has become of any of it for a while."""
        return asyncio.get_running_loop().time() - self._last_news >= SILENT_SECONDS

    def unwritten(self) -> Iterator[Outgoing]:
        """All of it, in no order."""
        for batch in (*self._open, *self._again, *self.packed):
            yield from batch.messages
        yield from self.waiting

    def on_sent(self, batch: MessageBatch) -> None:
        """It is on its way."""
        self._open.add(batch)
        self._is_quiet.clear()

    def on_ended(self, batch: MessageBatch) -> None:
        """It is known what became of it."""
        self._open.discard(batch)
        self._last_news = asyncio.get_running_loop().time()
        if not self._open:
            self._is_quiet.set()

    def come_back(self, batch: MessageBatch) -> None:
        """Its messages have to go once more."""
        self._again.append(batch)

    async def put_back(self) -> None:
        """Wait until nothing is on its way; what has to go once more waits before all else then."""
        await self._is_quiet.wait()
        again, self._again = sorted(self._again, key=lambda batch: batch.number), []
        messages = [outgoing for batch in again for outgoing in batch.messages]
        if any(batch.goes_in_parts for batch in again):
            self.alone = max(self.alone, len(messages))
        self.waiting.extendleft(reversed(messages))
