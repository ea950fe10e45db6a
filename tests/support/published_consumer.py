"""The consumer that was published with the idea of long tasks, as a model: what each of its steps does.

Kafka's part is played too: partitions, and a position in each. It is here to be caught.
"""

from dataclasses import dataclass, field

from task_history import Happened, Place


@dataclass(slots=True)
class PublishedConsumer:
    """One worker's. Each method is a step of its code, in the order in which threads may take them."""

    lengths: list[int]
    """How many requests each partition has."""
    worker: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    history: list[Happened] = field(default_factory=list)

    def assign(self, *partitions: int, committed: int = 0) -> None:
        """More of them."""
        self.positions |= dict.fromkeys(partitions, committed)

    def poll(self) -> Place | None:
        """`c.poll(2.0)`, and a service thread for what it gave."""
        for partition, position in self.positions.items():
            if partition not in self.paused and position < self.lengths[partition]:
                place = Place(partition, position)
                self.positions[partition] += 1
                self._say("start", place)
                return place
        return None

    def pause(self) -> None:
        """`consumer.pause(consumer.assignment())`, in the service thread: later than the poll."""
        self.paused = set(self.positions)

    def resume(self) -> None:
        """`consumer.resume(consumer.assignment())`, whatever has happened."""
        self.paused = set()

    def end(self, place: Place) -> None:
        """The task has ended."""
        self._say("end", place)

    def acked(self, place: Place) -> None:
        """The callback of its Response: `consumer.commit()`, without an offset, is of every position."""
        self._say("answer", place)
        for partition, position in self.positions.items():
            self._say("commit", Place(partition, position))

    def killed(self) -> None:
        """SIGKILL. The pool starts another process, which waits for a task of the pool's and gets none."""
        self.history.append(Happened("kill", self.worker))

    def requests(self) -> list[Place]:
        """All."""
        return [Place(number, at) for number, length in enumerate(self.lengths) for at in range(length)]

    def _say(self, what: str, place: Place) -> None:
        self.history.append(Happened(what, self.worker, place))  # type: ignore[arg-type]  # one of its words
