"""What the triggers that share a worker differ in: the events that their lanes are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.event import Event, PartitionView, partition_event_class
from headrace.runtime.worker.api.event_classes import nuclio_event_class
from headrace.runtime.worker.api.sdk import TriggerInfo


@dataclass(frozen=True, slots=True)
class EventSource:
    """One trigger."""

    trigger: TriggerInfo
    new_event: Callable[[Any, PartitionView, int], Event]
    wants_replies: bool

    def of(self, view: PartitionView) -> "EventSource":
        """For the records of one partition."""
        return replace(self, new_event=partition_event_class(self.new_event, view))


def load_event_sources(start: WorkerStart, load: Callable[[str, str], Any]) -> Sequence[EventSource]:
    """Its own, then its guests'. Raises what `load` does."""
    return [
        EventSource(
            TriggerInfo(kind, name),
            nuclio_event_class(load("event", event), has_key=start.has_event_keys),
            wants_replies,
        )
        for kind, name, event, wants_replies in (
            (start.trigger_kind, start.trigger_name, start.event, start.wants_replies),
            *start.guests,
        )
    ]
