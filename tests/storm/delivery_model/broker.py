"""What a broker knows of a group, and the way there and back."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, RequestTimedOutError

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import decode_text

PARTITIONS = 3

Offsets = dict[TopicPartition, tuple[int, str]]


class Group:
    """What the broker knows: the log of each partition, the group's commits, who is in it."""

    def __init__(self) -> None:
        self.offsets: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.ends = [0] * PARTITIONS
        self.commits: dict[int, Checkpoint] = {}
        self.generation = 0
        self.members: set[int] = set()
        self.taken: Counter[int] = Counter()
        """How many commits of each member."""
        self.violations: list[str] = []
        """Of promises, by what goes on in tasks, which nobody awaits."""

    def commit(self, member: int, generation: int, offsets: Offsets) -> None:
        """Refuses whoever isn't in the current generation. L6: a commit never moves back."""
        if generation != self.generation or member not in self.members:
            raise CommitFailedError
        self.taken[member] += 1
        for tp, (offset, text) in offsets.items():
            metadata = decode_text(offset, text)
            assert metadata is not None, text
            if offset < self.commits.get(tp.partition, Checkpoint(0)).offset:
                self.violations.append(f"L6: the commit of {tp.partition} moved back to {offset}")
            self.commits[tp.partition] = metadata.checkpoint

    def make_anew(self, number: int) -> None:
        """The topic is deleted and made again: an empty log, and nothing committed."""
        self.offsets[number], self.ends[number] = [], 0
        self.commits.pop(number, None)


@dataclass(eq=False)
class Request:
    """A commit under way: on its way to the broker, or its answer on the way back."""

    generation: int
    offsets: Offsets
    answer: asyncio.Future[None]
    has_arrived: bool = False
    refusal: CommitFailedError | None = None


class Client:
    """What a committer sees of a consumer. While it `is_held`, each request waits for `deliver`."""

    def __init__(self, group: Group, member: int) -> None:
        self._group = group
        self._member = member
        self._coordinator = SimpleNamespace(generation=-1)
        self.fate = "ok"
        self.is_held = False
        self.waiting: list[Request] = []

    @property
    def generation(self) -> int:
        generation: int = self._coordinator.generation
        return generation

    @generation.setter
    def generation(self, generation: int) -> None:
        self._coordinator.generation = generation

    async def commit(self, offsets: Offsets) -> None:
        request = Request(self.generation, offsets, asyncio.get_running_loop().create_future())
        self.waiting.append(request)
        if not self.is_held:
            self.deliver(request, self.fate)
        try:
            await request.answer
        finally:
            if request in self.waiting:
                self.waiting.remove(request)

    def arrive(self, request: Request) -> None:
        """The broker has it."""
        if not request.has_arrived:
            request.has_arrived = True
            try:
                self._group.commit(self._member, request.generation, request.offsets)
            except CommitFailedError as refusal:
                request.refusal = refusal

    def deliver(self, request: Request, fate: str) -> None:
        """`fate` is one of FATES: it arrives, it doesn't, or it does and its answer is lost."""
        self.waiting.remove(request)
        if fate != "request lost":
            self.arrive(request)
        if request.answer.done():
            return
        if fate != "ok":
            request.answer.set_exception(RequestTimedOutError())
        elif request.refusal is not None:
            request.answer.set_exception(request.refusal)
        else:
            request.answer.set_result(None)
