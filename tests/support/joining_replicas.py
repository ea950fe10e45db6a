"""What handlers do while replicas join and leave, and what they and the replicas have said."""

import re
from pathlib import Path

from kafka_records import handled
from replica import Replica, lines, set_trigger

# Writes each start, with the processor that it was in.
WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
"""


# The same, and stays in its first record of a partition until `go` is there.
WAITS = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
        if event.offset == 0:
            wait_for("go")
        write(f"{event.topic} {event.shard_id} {event.offset}", "ended")
"""


def starts(folder: Path) -> list[list[str]]:
    """Topic, partition, offset and processor of each start of a handler."""
    return [line.split() for line in lines(folder)]


def only_once(folder: Path, count: int) -> bool:
    """Whether all of `count` records were handled, and none twice."""
    found = handled(folder)
    return len(lines(folder)) == sum(len(set(offsets)) for offsets in found.values()) == count


def explicit(folder: Path, mode: str = "explicitOnly", **fields: object) -> Path:
    """The function, with explicit acks."""
    return set_trigger(folder, explicitAckMode=mode, **fields)


def last_words(running: Replica) -> list[str]:
    """What it said from the signal on: each line up to the first ;, without clock and INFO."""
    said = running.log[running.log.index("INFO    SIGTERM") :].splitlines()
    return [re.sub(r"^[\d:.]+ |(INFO|WARNING) +|;.*", "", line) for line in said]
