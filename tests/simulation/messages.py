"""With exactlyOnce: what was written beside a commit is what one call made for each record, and all of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.runtime.partitions.key import PartitionKey


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
