"""The rest of an answer that comes in parts, between its worker and its client."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

from headrace.runtime.wire.reply import MAX_PART_BYTES, NOBODY, REPLY_WINDOW_BYTES

_TOLD_BYTES = REPLY_WINDOW_BYTES // 4


class CutOffError(Exception):
    """The handler failed amid its answer, or its worker died: the client must not take it for whole."""


class AnswerStream:
    """Holds what the client hasn't taken yet, about REPLY_WINDOW_BYTES at most: then its worker waits."""

    def __init__(self, on_taken: Callable[["AnswerStream", int], None]) -> None:
        """`on_taken` passes on how many bytes were taken in all, or NOBODY."""
        self._on_taken = on_taken
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._received = self._taken = self._told = 0
        self._is_whole = self._is_over = False
        self.has_left = False
        """The client, before the end."""

    def put(self, data: bytes, *, is_last: bool) -> None:
        """The next part."""
        self._received += len(data)
        if self._received - self._told > REPLY_WINDOW_BYTES + MAX_PART_BYTES:
            self.end()  # its worker doesn't wait, as it should: what it sends isn't kept
        if not self._is_over:
            self._waiting.append(data)
            self._is_whole = self._is_over = is_last
            self._news.set()

    def end(self) -> None:
        """Nothing more comes. Idempotent."""
        self._is_over = True
        self._news.set()

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Each once the one before it is taken. Raises CutOffError where the end is missing."""
        while True:
            while self._waiting:
                data = self._waiting.popleft()
                yield data
                self._take(len(data))
            if self._is_over:
                break
            self._news.clear()
            await self._news.wait()
        if not self._is_whole:
            raise CutOffError

    def leave(self) -> None:
        """The client takes no more. Idempotent, and nothing where it has taken all."""
        if not self._is_over:
            self.has_left = True
            self.end()
            self._on_taken(self, NOBODY)

    def _take(self, byte_count: int) -> None:
        self._taken += byte_count
        if self._taken - self._told >= _TOLD_BYTES and not self._is_over:
            self._told = self._taken
            self._on_taken(self, self._told)
