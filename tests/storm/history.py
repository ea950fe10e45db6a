"""What handlers did, written down so that no kill can take it back.

Each START, TICK ("still in it"), END and ACK is one write to a file opened with O_APPEND.
"""

from dataclasses import dataclass
from pathlib import Path

# For handlers with worker_bench.PRELUDE: `note("START", event)`. The parent is asked before it can die.
RECORDER = """
    HISTORY = os.open(FOLDER / "history", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    REPLICA = os.getppid()

    def note(what, event):
        record = f"{event.topic} {event.shard_id} {event.offset} {event.attempt}"
        os.write(HISTORY, f"{what} {record} {os.getpid()} {REPLICA} {time.monotonic_ns()}\\n".encode())
"""

Partition = tuple[str, int]
RecordId = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """`what` is START, TICK, END or ACK; `ns` is on CLOCK_MONOTONIC, which all processes share."""

    what: str
    topic: str
    partition: int
    offset: int
    attempt: int
    pid: int
    replica: int
    ns: int

    @property
    def key(self) -> Partition:
        return (self.topic, self.partition)

    @property
    def record(self) -> RecordId:
        return (self.topic, self.partition, self.offset)


class History:
    """One that grows: what is there already is read once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history"
        self._position = 0
        self.entries: list[Entry] = []
        """In the order of the writes."""
        self.ended: set[RecordId] = set()

    def read_on(self) -> None:
        """What was written meanwhile."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._position += len(text)
        for line in text.decode().splitlines():
            what, topic, *rest = line.split()
            self.entries.append(Entry(what, topic, *map(int, rest)))
            if what == "END":
                self.ended.add(self.entries[-1].record)


def read_history(folder: Path) -> list[Entry]:
    """All of it, so far."""
    history = History(folder)
    history.read_on()
    return history.entries
