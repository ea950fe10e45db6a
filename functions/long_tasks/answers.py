"""Which requests of a client have been answered, and how."""

from dataclasses import dataclass, field

from headrace.functions.long_tasks.communication_pb2 import Response


@dataclass(slots=True)
class Answers:
    """Who has been answered, of those who were asked. A second answer to one of them changes nothing."""

    asked: dict[bytes, int]
    """Sequences by key."""
    processed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    repeated: int = 0

    def take(self, key: bytes | None, response: Response) -> bool:
        """Whether it is a first answer to one of these requests. The key says to which: see handler.py."""
        sequence = self.asked.get(key or b"")
        if sequence is None:
            return False
        if sequence in self.processed | self.refused:
            self.repeated += 1
            return False
        (self.processed if response.isprocessed else self.refused).add(sequence)
        return True

    @property
    def missing(self) -> list[int]:
        """In order."""
        return sorted({*self.asked.values()} - self.processed - self.refused)
