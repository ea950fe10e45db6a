"""What a client has named on its connection: it is told where a run can't have more, before Kafka has it.

Whoever ingests counts what is there of the run, whichever connection it came by.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from headrace.functions.run_tracking.messages.items import (
    AddTag,
    ClientItem,
    ItemError,
    LogCustomObject,
    LogHParams,
    LogMetric,
    RemoveTag,
)
from headrace.functions.run_tracking.messages.nested import weight_of
from headrace.functions.run_tracking.settings import RunBounds


@dataclass(slots=True)
class ConnectionLimits:
    """Of one connection, so of one run."""

    bounds: RunBounds
    _sequences: set[int] = field(default_factory=set)
    """Hashes: there may be many."""
    _tags: set[str] = field(default_factory=set)

    def check(self, items: Iterable[ClientItem]) -> None:
        """Raises ItemError for the first item that would be more than there may be: then none is named."""
        sequences, tags = set[int](), set(self._tags)
        for item in items:
            match item:
                case LogMetric() | LogCustomObject():
                    self._sequence(item, sequences)
                case LogHParams():
                    self._hparams(item)
                case AddTag():
                    tags.add(item.tag_name)
                    if len(tags) > self.bounds.tags:
                        raise ItemError(f"a run has at most {self.bounds.tags} tags: RUN_MAX_TAGS")
                case RemoveTag():
                    tags.discard(item.tag_name)
        self._sequences |= sequences
        self._tags = tags

    def _sequence(self, item: LogMetric | LogCustomObject, new: set[int]) -> None:
        key = hash((item.name, msgspec.json.encode(item.context) if item.context else b""))
        if key in self._sequences or key in new:
            return
        if len(self._sequences) + len(new) >= self.bounds.sequences:
            raise ItemError(
                f"a run has at most {self.bounds.sequences} metrics and the like, each in each context:"
                " RUN_MAX_SEQUENCES"
            )
        new.add(key)

    def _hparams(self, item: LogHParams) -> None:
        size, names = weight_of(item.value)
        if size > self.bounds.hparams_bytes or names > self.bounds.hparams:
            raise ItemError(self.bounds.say_hparams(size, names))
