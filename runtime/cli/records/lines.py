"""Records to send: the lines of stdin as they come, or made up; each held back to a rate."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from headrace.runtime.errors import UsageError
from headrace.runtime.kafka.client import RecordToSend

_BATCH = 500  # records sent before their acknowledgements are awaited


async def made_up(count: int, size: int, rate: float | None) -> AsyncIterator[list[RecordToSend]]:
    """Yield `count` values of `size` bytes: their number, padded. Twenty batches a second at most."""
    # Small batches at a low rate, so that records come evenly.
    batch = _BATCH if rate is None else min(_BATCH, max(1, int(rate / 20)))
    for first in range(0, count, batch):
        numbers = range(first, min(first + batch, count))
        yield [RecordToSend(str(number).encode().zfill(size)[-size:]) for number in numbers]


async def stdin_batches(understood: Callable[[bytes], RecordToSend]) -> AsyncIterator[list[RecordToSend]]:
    """Yield the lines of stdin as they come: a typed line at once, a file in batches.

    `understood` raises ValueError, with what follows the line's number.
    """
    number = 0
    async for lines in _stdin_lines():
        for start in range(0, len(lines), _BATCH):
            batch = lines[start : start + _BATCH]
            yield [_numbered(understood, line, number + at) for at, line in enumerate(batch, 1)]
            number += len(batch)


def keyed_line(line: bytes) -> RecordToSend:
    """Parse key<TAB>value. Raises ValueError."""
    key, tab, value = line.partition(b"\t")
    if not tab:
        raise ValueError("has no tab: --keyed wants key<TAB>value")
    return RecordToSend(value, key)


def _numbered(understood: Callable[[bytes], RecordToSend], line: bytes, number: int) -> RecordToSend:
    try:
        return understood(line)
    except ValueError as error:
        raise UsageError(f"line {number} of stdin {error}") from None


async def _stdin_lines() -> AsyncIterator[list[bytes]]:
    """Yield whole lines, read by a thread that ends with the process: a read cannot be cancelled."""
    # At most four chunks are read ahead: a slow broker slows the reading down.
    loop, free_chunks = asyncio.get_running_loop(), threading.Semaphore(4)
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()

    def read() -> None:
        # Not empty: an empty chunk is the end of stdin.
        chunk: bytes | OSError = b"not yet"
        with suppress(RuntimeError, ValueError):  # the loop or stdin is closed: nobody listens
            while chunk and not isinstance(chunk, OSError):
                free_chunks.acquire()
                try:
                    chunk = _read_stdin()
                except OSError as error:
                    chunk = error
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise UsageError(f"cannot read the records from stdin: {chunk.strerror}")
        free_chunks.release()
        *lines, rest = (rest + chunk).split(b"\n")  # the last line may go on in the next chunk
        yield lines
    # The last line needs no line end.
    if rest:
        yield [rest]


def _read_stdin() -> bytes:
    """Read what is there, at least a byte, and wait for no more than that; empty at the end.

    Reads past Python's buffer: its lock, held by a thread that waits, would abort our exit.
    """
    raw = getattr(sys.stdin.buffer, "raw", None)
    return os.read(raw.fileno(), 65536) if raw else sys.stdin.buffer.read(65536)


async def paced(
    batches: AsyncIterator[list[RecordToSend]], rate: float | None
) -> AsyncIterator[list[RecordToSend]]:
    """Yield the batches, each held back until `rate` records per second allow it."""
    began, passed = time.monotonic(), 0
    async for batch in batches:
        if rate is not None:
            # Counted from the start: what one batch takes too long, the next ones make up for.
            await asyncio.sleep(began + passed / rate - time.monotonic())
        yield batch
        passed += len(batch)
