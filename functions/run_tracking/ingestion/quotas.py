"""How much one run may have of what is listed as a whole: sequences, tags, artifacts."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from headrace.functions.run_tracking.messages.validation import weight_of
from headrace.functions.run_tracking.settings import RunBounds


class OverQuotaError(Exception):
    """The run has as much as it may. One line; the message has no effect."""


@dataclass(slots=True)
class Quota:
    """Of one kind. `there` is what the run has."""

    most: int
    what: str
    setting: str
    there: set[Hashable] = field(default_factory=set)

    def take(self, name: Hashable) -> None:
        """Raises OverQuotaError for a new one that is too many."""
        if name in self.there:
            return
        if len(self.there) >= self.most:
            raise OverQuotaError(f"the run has {len(self.there)} {self.what}, and no more: {self.setting}")
        self.there.add(name)

    def give_back(self, name: Hashable) -> None:
        """It goes."""
        self.there.discard(name)


@dataclass(slots=True)
class Quotas:
    """Of one run. None where a batch can't come near: then nothing has to be known of what is there."""

    sequences: Quota | None = None
    tags: Quota | None = None
    artifacts: Quota | None = None


class HParamsTree:
    """All of a run's, within its bounds."""

    def __init__(self, attrs: dict[str, Any], bounds: RunBounds) -> None:
        self.attrs, self._bounds = attrs, bounds
        self._size, self._names = weight_of(attrs)

    def set(self, value: dict[str, Any]) -> None:
        """Set what `value` says, and leave what is beside it. Raises OverQuotaError: then nothing is set.

        A chain of objects with one member each is a path: what stands at its end replaces what is there. At
        the top, each member is an end of its own.
        """
        changes = [self._change(path, end) for path, end in _ends_of(value)]
        size, names = self._size, self._names
        for at, name, new in changes:
            before = weight_of({name: at[name]}) if name in at else (0, 0)
            after = weight_of({name: new})
            size, names = size + after[0] - before[0], names + after[1] - before[1]
        if (size > self._bounds.hparams_bytes and size > self._size) or names > max(
            self._bounds.hparams, self._names
        ):
            raise OverQuotaError(self._bounds.say_hparams(size, names))
        for at, name, new in changes:
            at[name] = new
        self._size, self._names = size, names

    def _change(self, path: list[str], end: Any) -> tuple[dict[str, Any], str, Any]:
        """The object that changes, its member, and what that becomes."""
        at = self.attrs
        for place, name in enumerate(path[:-1]):
            below = at.get(name)
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
