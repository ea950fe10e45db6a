"""What handlers have produced: what is on its way, and with exactlyOnce, what was written with which commit.

Of those, what one call made for each record, and all of it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeAlias

from headrace.runtime.partitions.key import PartitionKey

Part: TypeAlias = tuple[Any, Sequence[int]]
"""A Delivery, and offsets that were delivered as one."""


@dataclass(frozen=True, slots=True)
class _Message:
    belongs: Sequence[Part]
    process: Any
    at: float


class OnTheirWay:
    """Messages that the broker has neither taken nor refused, and what they belong to."""

    def __init__(self) -> None:
        self._messages: dict[bytes, _Message] = {}
        self._of: dict[tuple[PartitionKey, int], set[bytes]] = {}  # by the last call of each

    def add(
        self, value: bytes, belongs: Sequence[Part], is_surely_of: Sequence[bool], process: Any, at: float
    ) -> None:
        """Produced now, for these; what was acked by then isn't waited for, if that is known in time."""
        self._messages[value] = _Message(belongs, process, at)
        for delivery, offsets in compress(belongs, is_surely_of):
            self._of.setdefault((delivery.key, offsets[0]), set()).add(value)

    def has(self, key: PartitionKey, first: int) -> bool:
        """Whether what begins there waits for some."""
        return bool(self._of.get((key, first)))

    def drop(self, key: PartitionKey, first: int) -> None:
        """It is to be handled again, and will produce anew; or perhaps not, where it was acked."""
        self._of.pop((key, first), None)

    def on_acked(self, key: PartitionKey, first: int, process: Any, since: float) -> None:
        """By `process`: what others have produced since `since` may come after that, and belong nowhere.

        What a dead one has produced is of a delivery before: who acks what came again says so of that.
        """
        if values := self._of.get((key, first)):
            kept = (self._messages[it] for it in values)
            if any(it.process is not process and (it.at > since or it.process.is_dead) for it in kept):
                self.drop(key, first)

    def end(self, value: bytes) -> Iterator[tuple[Any, Sequence[int], bool]]:
        """It has been taken or refused. What it belonged to, and whether by the last call of that."""
        message = self._messages.pop(value, None)
        found = []
        for delivery, offsets in message.belongs if message else ():
            values = self._of.get((delivery.key, offsets[0]), set())
            found.append((delivery, offsets, value in values))
            values.discard(value)
        return iter(found)

    def leave(self, left: Any) -> set[int]:
        """That delivery is over: the offsets of what it has produced and isn't known to be written."""
        unwritten = {
            offset
            for message in self._messages.values()
            for delivery, offsets in message.belongs
            if delivery is left
            for offset in offsets
        }
        for place in [it for it in self._of if it[0] == left.key]:
            del self._of[place]
        return unwritten


@dataclass(slots=True, eq=False)
class _Made:
    """By one call, for one record."""

    values: set[bytes] = field(default_factory=set)
    is_good: bool = False


class Messages:
    """By record. Says what is wrong, in words; nothing where all is well."""

    def __init__(self) -> None:
        self._made: dict[tuple[PartitionKey, int], list[_Made]] = defaultdict(list)
        self._written: Counter[bytes] = Counter()

    def on_start(self, key: PartitionKey, offset: int) -> None:
        """A call begins, and makes messages anew."""
        self._made[key, offset].append(_Made())

    def on_made(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """By the call that began last."""
        self._made[key, offset][-1].values.add(value)

    def on_good(self, key: PartitionKey, offset: int) -> None:
        """That call has ended well."""
        self._made[key, offset][-1].is_good = True

    def on_refused(self, key: PartitionKey, offset: int, value: bytes) -> None:
        """The call that has made it hasn't ended well after all."""
        for made in self._made[key, offset]:
            if value in made.values:
                made.is_good = False

    def on_written(self, values: Iterable[bytes]) -> str:
        """A commit has taken them along."""
        self._written.update(values)
        twice = sorted(value for value, count in self._written.items() if count > 1)
        return f"has messages {twice} twice" if twice else ""

    def wrong_with(self, key: PartitionKey, offset: int, *, is_acked: bool, is_given_up: bool) -> str:
        """Of a record that a commit covers. Who acks one may do so before all of its messages are made."""
        made = self._made[key, offset]
        written = {value for it in made for value in it.values if value in self._written}
        whole = [it.values for it in made if it.is_good] or [set()]
        is_of_one = any(written <= it.values for it in made) or not written
        is_none_due = is_given_up and not written
        if is_none_due or (is_acked and is_of_one) or any(written == values for values in whole):
            return ""
        return f"is committed with messages {sorted(written)} of {offset}, for which {whole} were made"
