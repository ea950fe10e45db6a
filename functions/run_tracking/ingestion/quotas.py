"""Limits of one run: numbers of its sequences, tags and artifacts, and the size of its hyperparameters."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from headrace.functions.run_tracking.messages.validation import weight_of
from headrace.functions.run_tracking.settings import RunBounds


class OverQuotaError(Exception):
    """The run has as much as it may. The message is one line; the item has no effect."""


@dataclass(slots=True)
class Quota:
    """Limit for one kind of thing. `names` are the names that the run has."""

    most: int
    what: str
    setting: str
    names: set[Hashable] = field(default_factory=set)

    def add(self, name: Hashable) -> None:
        """Add a name. Raises OverQuotaError if it is new and one too many."""
        if name in self.names:
            return
        if len(self.names) >= self.most:
            raise OverQuotaError(f"the run has {len(self.names)} {self.what}, and no more: {self.setting}")
        self.names.add(name)

    def discard(self, name: Hashable) -> None:
        """Remove a name."""
        self.names.discard(name)


@dataclass(slots=True)
class Quotas:
    """Limits of one run. None for a kind that the batch can't exceed, so that its names needn't be read."""

    sequences: Quota | None = None
    tags: Quota | None = None
    artifacts: Quota | None = None


class HParamsTree:
    """Tree of all hyperparameters of a run, within its limits."""

    def __init__(self, attrs: dict[str, Any], bounds: RunBounds) -> None:
        self.attrs, self._bounds = attrs, bounds
        self._size, self._names = weight_of(attrs)

    def set(self, value: dict[str, Any]) -> None:
        """Merge `value` into the tree. Raises OverQuotaError, after which nothing has changed.

        A chain of objects with one member each is a path, and the value at its end replaces what is there. An
        object with several members at the top replaces each of those members.
        """
        # All changes are weighed before any is made: a refused item changes nothing.
        changes = [self._change(path, end) for path, end in _ends_of(value)]
        size, names = self._size, self._names
        for at, name, new in changes:
            # Weighed with the name, which takes bytes and counts itself.
            before = weight_of({name: at[name]}) if name in at else (0, 0)
            after = weight_of({name: new})
            size, names = size + after[0] - before[0], names + after[1] - before[1]
        # A tree that is over its limits already, as after these were lowered, may shrink but not grow.
        if (size > self._bounds.hparams_bytes and size > self._size) or names > max(
            self._bounds.hparams, self._names
        ):
            raise OverQuotaError(self._bounds.say_hparams(size, names))
        for at, name, new in changes:
            at[name] = new
        self._size, self._names = size, names

    def _change(self, path: list[str], end: Any) -> tuple[dict[str, Any], str, Any]:
        """Return the object to change, the name of its member, and the member's new value."""
        at = self.attrs
        for place, name in enumerate(path[:-1]):
            below = at.get(name)
            # No object lies here yet: the rest of the path becomes new ones, in place of any other value.
            if not isinstance(below, dict):
                for inner in reversed(path[place + 1 :]):
                    end = {inner: end}
                return at, name, end
            at = below
        return at, path[-1], end


def _ends_of(value: dict[str, Any]) -> list[tuple[list[str], Any]]:
    path: list[str] = []
    end: Any = value
    while isinstance(end, dict) and len(end) == 1:
        ((name, end),) = end.items()
        path.append(name)
    return [(path, end)] if path else [([name], member) for name, member in value.items()]
