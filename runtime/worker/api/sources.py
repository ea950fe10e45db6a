"""What the triggers that share a worker differ in: the events that their lanes are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.event import Event, PartitionView, of_partition
from headrace.runtime.worker.api.event_classes import as_nuclios
from headrace.runtime.worker.api.sdk import TriggerInfo


@dataclass(frozen=True, slots=True)
class Source:
    """One trigger."""

    trigger: TriggerInfo
    new_event: Callable[[Any, PartitionView, int], Event]
    wants_replies: bool

    def of(self, view: PartitionView) -> "Source":
        """For the records of one partition."""
        return replace(self, new_event=of_partition(self.new_event, view))


def sources_of(start: WorkerStart, load: Callable[[str, str], Any]) -> Sequence[Source]:
    """Its own, then its guests'. Raises what `load` does."""
    return [
        Source(
            TriggerInfo(kind, name),
            as_nuclios(load("event", event), has_key=start.has_event_keys),
            wants_replies,
        )
        for kind, name, event, wants_replies in (
            (start.trigger_kind, start.trigger_name, start.event, start.wants_replies),
            *start.guests,
        )
    ]
