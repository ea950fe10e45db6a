"""Frames to one worker process: runs of records, and orders about records that it holds."""

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from itertools import groupby

from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.framing import Buffer, FrameKind, json_frame
from headrace.runtime.wire.outcomes import encode_about
from headrace.runtime.wire.records import (
    RunHeader,
    WireRecord,
    encode_chunk,
    encode_forget,
    encode_recall,
    encode_run,
    encode_slice,
)
from headrace.runtime.wire.reply import encode_taken
from headrace.runtime.wire.undecoded import ChunkCache
from headrace.runtime.workers.in_flight import InFlight, RunningRecord

# Some times what a chunk of 1 MB takes to be decoded; a lane may wait so long for its turn.
KEPT_SECONDS = 0.03


Part = tuple[Lane, Sequence[WireRecord]]
"""Records of one lane in a batch, in one sequence. A lane may have several parts that follow each other."""


def _discard(*_: Buffer) -> None:
    """Send nothing: there is no process yet."""


class FrameSender:
    """Sends to one process, and knows which lanes and chunks it was told of; ends with the process."""

    def __init__(
        self,
        worker_index: int,
        in_flight: InFlight,
        lanes: MutableMapping[int, Lane],
        send: Callable[..., None] = _discard,
        flush: Callable[[], None] = _discard,
    ) -> None:
        """Enters into `in_flight` all runs that are sent, and into `lanes`, by id, all that are announced.

        `send` takes one or more frames, in pieces, and never blocks. `flush` has what was sent leave now.
        """
        self.send_frame = send
        self.flush = flush
        self._worker_index = worker_index
        self._in_flight = in_flight
        self._lanes = lanes
        self._cached_chunks: ChunkCache[int] = ChunkCache()
        # When the process last had to drop a chunk that it wasn't done with.
        self._displaced_at = 0.0
        # By seq, and when that began to run: another delivery of the record has another seq.
        self._cancelled_at: dict[tuple[int, int], float] = {}

    def send(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        """Send a run: records of one lane, all at the same attempt."""
        self.send_frame(*self._frames(lane, records))

    def send_batch(self, parts: Sequence[Part]) -> None:
        """Send records of several lanes, for one call of the handler."""
        first = self._in_flight.next_seq
        batch = range(first, first + sum(len(records) for _, records in parts))
        runs = [(lane, run) for lane, records in parts for run in by_attempt(lane, records)]
        frames = [frame for run in runs for frame in self._frames(*run, batch)]
        # All in one write: the handler is called once the last run of the batch is there.
        self.send_frame(*frames)

    def suits(self, lane: Lane) -> bool:
        """Whether the lane's next records displace no chunk that the process isn't done with.

        A chunk that is displaced is sent and decoded again. So that is put off, but for KEPT_SECONDS at most.
        """
        chunk = lane.next_chunk
        return (
            chunk is None
            or self._cached_chunks.has_place_for(chunk.id, len(chunk.data))
            or time.monotonic() - self._displaced_at > KEPT_SECONDS
        )

    def has_begun(self, chunk: Chunk) -> bool:
        """Whether the process has this chunk, and is to have more records of it."""
        return chunk.id in self._cached_chunks

    def recall(self, lane: Lane) -> None:
        """Ask for the lane's records that haven't started: they come back as RETURNED."""
        lane.on_recalled()
        self.send_frame(encode_recall(lane.id))

    def take_reply(self, lane: Lane, byte_count: int) -> None:
        """Say that so many bytes of the reply to the lane's first record here were taken."""
        # A reply is of the first record of its lane: a request is a lane of one record.
        for run in self._in_flight.runs:
            if run.lane is lane:
                self.send_frame(encode_taken(run.first_seq, byte_count))
                break

    def forget(self, lane: Lane) -> None:
        """Say that a lane is over; nothing of it may be in flight."""
        if self._lanes.pop(lane.id, None) is not None:
            self._in_flight.forget(lane)
            self.send_frame(encode_forget(lane.id))

    def cancel(self, running: RunningRecord, why: str) -> float:
        """Cancel the handler in this record, if it is still there. Return the seconds since the first call.

        `why` begins the reason that the record fails with. Idempotent.
        """
        # A seq is given once for each process, but the same call may be cancelled by two: the watchdog and a
        # client that left.
        call, find = (running.seq, running.since_ns), self._in_flight.find
        if call not in self._cancelled_at:
            # Those that have ended are dropped: nobody asks for them again.
            still_there = {it: at for it, at in self._cancelled_at.items() if find(it[0]) is not None}
            self._cancelled_at = {**still_there, call: time.monotonic()}
            self.send_frame(encode_about(FrameKind.CANCEL, running.seq, why))
        return time.monotonic() - self._cancelled_at[call]

    def _frames(self, lane: Lane, records: Sequence[WireRecord], batch: range = range(0)) -> list[Buffer]:
        # LANE once, before the first run: it says what the id stands for.
        frames = [] if lane.whole.id in self._lanes else [self._announce(lane.whole)]
        # Before the frames leave: the lane must know where its records are.
        lane.on_sent(self._worker_index)
        has_more = self._in_flight.next_seq + len(records) < batch.stop
        header = self._in_flight.add(lane, records, batch, has_more=has_more)
        if isinstance(records, ChunkSlice):
            return [*frames, *self._slice(header, records)]
        return [*frames, encode_run(header, records)]

    def _announce(self, lane: Lane) -> Buffer:
        self._lanes[lane.id] = lane
        about: dict[str, int | str] = {**lane.key._asdict(), "lane_id": lane.id}
        # Left out if empty, as most are.
        if lane.source:
            about["source"] = lane.source
        if lane.log:
            about["log"] = lane.log
        return json_frame(FrameKind.LANE, about)

    def _slice(self, header: RunHeader, records: ChunkSlice) -> Iterator[Buffer]:
        """Yield a SLICE, after its CHUNK if the process doesn't keep that."""
        chunk, first = records.chunk, records.offsets.start
        is_end = records.offsets.stop == chunk.first + chunk.count
        # The same calls as in the worker (worker/inbox.py), so both ends know what is kept there.
        if self._cached_chunks.get(chunk.id) is None:
            if not self._cached_chunks.has_place_for(chunk.id, len(chunk.data)):
                self._displaced_at = time.monotonic()
            self._cached_chunks.put(chunk.id, chunk.id, len(chunk.data))
            yield encode_chunk(len(chunk.data))
            yield chunk.data
        if is_end:
            self._cached_chunks.drop(chunk.id)
        yield encode_slice(header, chunk.id, first - chunk.first, first, is_end=is_end)


def by_attempt(lane: Lane, records: Sequence[WireRecord]) -> Iterator[Sequence[WireRecord]]:
    """Yield runs of records that are at the same attempt: a run has one attempt for all."""
    if not lane.has_failed:
        yield records
        return
    at = 0
    for _, run in groupby(records, key=lane.attempt):
        count = len(list(run))
        yield records[at : at + count]
        at += count
