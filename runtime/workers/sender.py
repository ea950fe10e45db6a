"""What goes to one worker process: records of lanes, and what it is to do with them."""

import time
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import groupby
from typing import Protocol

from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.records import Buffer, FrameKind, RunHeader, WireRecord
from headrace.runtime.wire.reply import encode_taken
from headrace.runtime.wire.undecoded import ChunkCache
from headrace.runtime.workers.in_flight import InFlight, RunningRecord

# Some times what a chunk of 1 MB takes to be decoded; a lane may wait so long for its turn.
KEPT_SECONDS = 0.03


Part = tuple[Lane, Sequence[WireRecord]]
"""Of a batch: records of one lane, in one sequence. A lane may have several that follow each other."""


class Sink(Protocol):
    """A worker process, or what stands for one."""

    def send(self, *data: Buffer) -> None:
        """One or more frames, in pieces. Never blocks."""

    def flush(self) -> None:
        """Have what was sent leave now."""


class NoSink:
    """Where there is no process yet."""

    def send(self, *data: Buffer) -> None:
        """It is lost."""

    def flush(self) -> None:
        """Nothing waits."""


class FrameSender:
    """Knows what its process has been told. Lost with it."""

    def __init__(
        self, worker_index: int, sink: Sink, in_flight: InFlight, lanes: MutableMapping[int, Lane]
    ) -> None:
        """Enters into `in_flight` what is sent, and into `lanes`, by id, what the process is told of."""
        self._worker_index = worker_index
        self._in_flight = in_flight
        self._lanes = lanes
        self._kept: ChunkCache[int] = ChunkCache()
        self._displaced_at = 0.0  # when a chunk was dropped that it wasn't done with
        self._cancelled_at: dict[tuple[int, int], float] = {}  # by seq, and since when that runs
        self.send_frame = sink.send
        self.flush = sink.flush

    def send(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """A run."""
        self.send_frame(*self._frames(lane, records))

    def send_batch(self, parts: Sequence[Part]) -> None:
        """Records of several lanes, for one call of the handler."""
        first = self._in_flight.next_seq
        batch = range(first, first + sum(len(records) for _, records in parts))
        runs = [(lane, run) for lane, records in parts for run in by_attempt(lane, records)]
        frames = [frame for run in runs for frame in self._frames(*run, batch)]
        self.send_frame(*frames)

    def suits(self, lane: Lane) -> bool:
        """Whether its next records go without having a chunk sent again that the worker isn't done with.

        That is put off for a while: a chunk that comes again is decoded again.
        """
        chunk = lane.next_chunk
        return (
            chunk is None
            or self._kept.has_place_for(chunk.id, len(chunk.data))
            or time.monotonic() - self._displaced_at > KEPT_SECONDS
        )

    def has_begun(self, chunk: Chunk) -> bool:
        """The process has it, and is to have more of it."""
        return chunk.id in self._kept

    def recall(self, lane: Lane) -> None:
        """Ask for what hasn't started of it."""
        lane.on_recalled()
        self.send_frame(wire.encode_recall(lane.id))

    def take_reply(self, lane: Lane, byte_count: int) -> None:
        """So many bytes of the answer to its first record here were taken."""
        for run in self._in_flight.runs:
            if run.lane is lane:
                self.send_frame(encode_taken(run.first_seq, byte_count))
                break

    def forget(self, lane: Lane) -> None:
        """It is over, and nothing of it is there."""
        if self._lanes.pop(lane.id, None) is not None:
            self._in_flight.forget(lane)
            self.send_frame(wire.encode_forget(lane.id))

    def cancel(self, running: RunningRecord, why: str) -> float:
        """Cancel the handler in this record, if it is still there. Idempotent; seconds since the first.

        `why` begins the reason that the record fails with.
        """
        call, find = (running.seq, running.since_ns), self._in_flight.find
        if call not in self._cancelled_at:
            held = {it: at for it, at in self._cancelled_at.items() if find(it[0]) is not None}
            self._cancelled_at = {**held, call: time.monotonic()}
            self.send_frame(wire.encode_about(FrameKind.CANCEL, running.seq, why))
        return time.monotonic() - self._cancelled_at[call]

    def _frames(self, lane: Lane, records: Sequence[WireRecord], batch: range = range(0)) -> list[Buffer]:
        frames = [] if lane.whole.id in self._lanes else [self._announce(lane.whole)]
        lane.on_sent(self._worker_index)
        has_more = self._in_flight.next_seq + len(records) < batch.stop
        header = self._in_flight.add(lane, records, batch, has_more=has_more)
        if isinstance(records, ChunkSlice):
            return [*frames, *self._slice(header, records)]
        return [*frames, wire.encode_run(header, records)]

    def _announce(self, lane: Lane) -> Buffer:
        self._lanes[lane.id] = lane
        about: dict[str, int | str] = {**lane.key._asdict(), "lane_id": lane.id}
        if lane.source:
            about["source"] = lane.source
        if lane.log:
            about["log"] = lane.log
        return wire.json_frame(FrameKind.LANE, about)

    def _slice(self, header: RunHeader, records: ChunkSlice) -> Iterator[Buffer]:
        """Behind its chunk, where the process doesn't keep that."""
        chunk, first = records.chunk, records.offsets.start
        is_end = records.offsets.stop == chunk.first + chunk.count
        if self._kept.get(chunk.id) is None:
            if not self._kept.has_place_for(chunk.id, len(chunk.data)):
                self._displaced_at = time.monotonic()
            self._kept.put(chunk.id, chunk.id, len(chunk.data))
            yield wire.encode_chunk(len(chunk.data))
            yield chunk.data
        if is_end:
            self._kept.drop(chunk.id)
        yield wire.encode_slice(header, chunk.id, first - chunk.first, first, is_end=is_end)


def by_attempt(lane: Lane, records: Sequence[WireRecord]) -> Iterator[Sequence[WireRecord]]:
    """Runs of records that are at the same attempt."""
    at = 0
    for attempt_count in _alike(lane, records):
        yield records[at : at + attempt_count]
        at += attempt_count


def _alike(lane: Lane, records: Sequence[WireRecord]) -> Sequence[int]:
    """How many in each run."""
    if not lane.has_failed:
        return [len(records)]
    return [len(list(run)) for _, run in groupby(records, key=lane.attempt)]
