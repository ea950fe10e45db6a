"""What every peer does with a record: it says so, takes 5 ms, says so. Poison raises or ends the process."""

import asyncio
import os
import sys
import time

HISTORY = os.open(sys.argv[4], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
HANDLER_SECONDS = 0.005


async def handle(topic: str, partition: int, offset: int, body: bytes) -> None:
    """`body` says what it is."""
    note("START", topic, partition, offset)
    if body == b"raises":
        raise ValueError(body)
    if body == b"exits":
        os._exit(1)
    await asyncio.sleep(HANDLER_SECONDS)
    note("END", topic, partition, offset)


def note(what: str, topic: str, partition: int, offset: int) -> None:
    """One write: no kill can cut it."""
    pid = os.getpid()
    line = f"{what} {topic} {partition} {offset} 1 {pid} {pid} {time.monotonic_ns()}\n"
    os.write(HISTORY, line.encode())
