"""Lanes whose records come to a worker: the partition of each, and its trigger's events."""

from collections.abc import Sequence
from typing import Any

from headrace.runtime.wire.records import RunHeader
from headrace.runtime.worker.api.acks import WorkerAcks
from headrace.runtime.worker.api.event_classes import EventSource
from headrace.runtime.worker.api.partition_view import PartitionView


class WorkerLanes:
    """Partitions and event sources by lane. The link thread changes them, the main thread reads."""

    def __init__(self, sources: Sequence[EventSource], acks: WorkerAcks, *, takes_acks: bool) -> None:
        """`sources` has the worker's own trigger first, then those that share the worker."""
        self._sources = sources
        self._acks = acks
        self._takes_acks = takes_acks
        self._views: dict[int, PartitionView] = {}
        self._source_of: dict[int, EventSource] = {}

    @property
    def own_source(self) -> EventSource:
        """The worker's own trigger."""
        return self._sources[0]

    def add(self, lane_id: int, topic: str, partition: int, source: int = 0, log: str = "") -> None:
        """Take in a lane, by the words of a LANE frame (link thread).

        It stands for a partition of a stream, or for the events of another trigger. `source` is the index of
        its trigger, `log` the stamp of the partition's log.
        """
        event_source = self._sources[source]
        view = PartitionView(topic, partition, event_source.trigger, lane_id, log=log)
        # Handlers that ack read topic and partition of each event.
        self._source_of[lane_id] = event_source.for_partition(view) if self._takes_acks else event_source
        self._views[lane_id] = view
        self._acks.add_lane(view)

    def forget(self, lane_id: int) -> None:
        """Drop a lane whose assignment is over (link thread)."""
        self._views.pop(lane_id, None)
        self._source_of.pop(lane_id, None)

    def view(self, header: RunHeader) -> PartitionView | None:
        """Return the partition that a run is of; None where its lane is over."""
        return self._views.get(header.place_id)

    def of_run(self, header: RunHeader) -> tuple[Any, EventSource]:
        """Return the partition and the event source of a run.

        The partition is None where the lane is over by now: then the run was recalled, and is empty.
        """
        place_id = header.place_id
        return self._views.get(place_id), self._source_of.get(place_id, self._sources[0])

    def is_own(self, lane_id: int) -> bool:
        """Whether a lane is of the worker's own trigger, not of one that shares the worker, nor over."""
        source = self._source_of.get(lane_id)
        return source is not None and source.trigger is self.own_source.trigger
