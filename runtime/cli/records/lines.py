"""Records for a topic: the lines of stdin as they come, or made up; each held back to a rate."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.kafka.client import RecordToSend

_OPTIONS = (
    click.option("--keyed", is_flag=True, help="Lines are key<TAB>value."),
    click.option("--count", type=click.IntRange(min=1), help="Make this many records; no stdin."),
    click.option("--size", type=click.IntRange(min=1), default=100, show_default=True, help="Bytes."),
    click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second."),
)
_BATCH = 500  # records sent before their acknowledgements are awaited


def record_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say which records it sends, and how fast."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


async def made_up(count: int, size: int, rate: float | None) -> AsyncIterator[list[RecordToSend]]:
    """`count` values of `size` bytes: their number, padded. Twenty batches a second at most."""
    batch = _BATCH if rate is None else min(_BATCH, max(1, int(rate / 20)))
    for first in range(0, count, batch):
        numbers = range(first, min(first + batch, count))
        yield [RecordToSend(str(number).encode().zfill(size)[-size:]) for number in numbers]


async def stdin_batches(understood: Callable[[bytes], RecordToSend]) -> AsyncIterator[list[RecordToSend]]:
    """The lines of stdin as they come: a typed line at once, a file in batches.

    `understood` raises ValueError, with what follows the line's number.
    """
    number = 0
    async for lines in _stdin_lines():
        for start in range(0, len(lines), _BATCH):
            batch = lines[start : start + _BATCH]
            yield [_numbered(understood, line, number + at) for at, line in enumerate(batch, 1)]
            number += len(batch)


def keyed_line(line: bytes) -> RecordToSend:
    """As --keyed has it. Raises ValueError."""
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
    """Whole lines, read by a thread that ends with the process: a read cannot be cancelled."""
    loop, room = asyncio.get_running_loop(), threading.Semaphore(4)
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()

    def read() -> None:
        chunk: bytes | OSError = b"not yet"
        with suppress(RuntimeError, ValueError):  # the loop or stdin is closed: nobody listens
            while chunk and not isinstance(chunk, OSError):
                room.acquire()
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
        room.release()
        *lines, rest = (rest + chunk).split(b"\n")
        yield lines
    if rest:
        yield [rest]


def _read_stdin() -> bytes:
    """What is there, at least a byte; empty at the end. Waits for no more than that.

    Past Python's buffer: its lock, held by a thread that waits, would abort our exit.
    """
    raw = getattr(sys.stdin.buffer, "raw", None)
    return os.read(raw.fileno(), 65536) if raw else sys.stdin.buffer.read(65536)


async def paced(
    batches: AsyncIterator[list[RecordToSend]], rate: float | None
) -> AsyncIterator[list[RecordToSend]]:
    """The batches, each held back until `rate` records per second allow it."""
    began, passed = time.monotonic(), 0
    async for batch in batches:
        if rate is not None:
            await asyncio.sleep(began + passed / rate - time.monotonic())
        yield batch
        passed += len(batch)
