"""Runs that wait in a worker process, shared by its two threads, and undecoded chunks."""

import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from headrace.runtime.wire.framing import Buffer
from headrace.runtime.wire.outcomes import encode_failed, encode_returned
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import RunHeader, WireRecord
from headrace.runtime.wire.undecoded import ChunkCache, Decode, DecodedRecords


class PendingRun:
    """Records of one lane, in order. The main thread takes them from the left, recall from the right.

    Both ends of a deque are atomic, so each record goes to exactly one of the two, without a lock per record.
    """

    def __init__(self, header: RunHeader, decode: Callable[[], Iterable[Any]]) -> None:
        self.header = header
        self.together: list[PendingRun] = []
        """Runs of the same batch, this one included, without those that were given back before."""
        self.records: deque[Any] = deque()
        self._decode: Callable[[], Iterable[Any]] | None = decode

    def open(self) -> None:
        """Decode the records: only when the run's turn has come, as it may be recalled before."""
        if self._decode is not None:
            self.records.extend(self._decode())
            self._decode = None

    def give_back(self) -> tuple[int, int] | None:
        """Take what hasn't started away from the main thread; return its span of seq, or None."""
        count = 0
        if self._decode is not None:
            self._decode = None
            count = self.header.count
        while self.records:
            try:
                self.records.pop()
            except IndexError:  # the main thread took the last one
                break
            count += 1
        end = self.header.first_seq + self.header.count
        return (end - count, end) if count else None


class Inbox:
    """Runs in order of arrival.

    The lock makes two promises: what is given back is on its way to the processor before the main thread can
    enter a later run; and after a failure no later record of that lane's epoch is entered.
    """

    def __init__(self, send: Callable[[bytes], None], wake: Callable[[], None], slot: ProgressSlot) -> None:
        """`send` writes frames at once, and `wake` says that something has come; both threads call them.

        The slot learns of the first record of each run before that is decoded: decoding may take as long as a
        handler, and kill as well.
        """
        self._send = send
        self._wake = wake
        self._slot = slot
        self._lock = threading.Lock()
        self._waiting: deque[PendingRun] = deque()
        self._incomplete: list[PendingRun] = []  # the beginning of a batch
        self._begun: dict[int, PendingRun] = {}  # by lane: what the main thread is in
        self._closed_epochs: dict[int, int] = {}
        self._is_stopping = False

    def put(self, run: PendingRun) -> None:
        """Take in a run that has arrived (link thread)."""
        with self._lock:
            # Behind a failure: the processor sends these again, after the record that has failed.
            if self._closed_epochs.get(run.header.lane_id, -1) >= run.header.epoch:
                self._give_back([run])
            else:
                self._incomplete.append(run)
                # A batch is handed over whole: its runs wait aside until the last one has come.
                run.together = self._incomplete
                if not run.header.has_more:
                    self._waiting.extend(self._incomplete)
                    self._incomplete = []
        self._wake()

    def recall(self, lane_id: int) -> None:
        """Give back what hasn't started of a lane (link thread)."""
        with self._lock:
            self._give_back_lane(lane_id)

    def forget(self, lane_id: int) -> None:
        """Forget a lane of which no run will come any more (link thread)."""
        with self._lock:
            self._closed_epochs.pop(lane_id, None)

    def stop(self) -> None:
        """Say that no more runs come: `next` returns None once the inbox is empty (link thread)."""
        with self._lock:
            self._is_stopping = True
        self._wake()

    def abandon(self) -> None:
        """Drop all records, in a process that the handler has forked: they are its parent's to handle."""
        # Without the lock: a thread that isn't in this process may have held it at the fork.
        for run in self._begun.values():
            run.records.clear()

    def next(self) -> PendingRun | None:
        """Return the next run, opened; None where none waits (main thread)."""
        with self._lock:
            # The run before has ended: the main thread asks for the next.
            self._begun.clear()
            if not self._waiting:
                return None
            run = self._waiting.popleft()
            self._begun[run.header.lane_id] = run
            self._slot.enter_run(run.header.first_seq)
            run.open()
            return run

    def next_beside(self, lanes: Container[int]) -> PendingRun | None:
        """Return the next run of a lane that isn't among `lanes`, opened; `end` follows (main thread)."""
        with self._lock:
            at = next((at for at, run in enumerate(self._waiting) if run.header.lane_id not in lanes), None)
            if at is None:
                return None
            run = self._waiting[at]
            del self._waiting[at]
            self._begun[run.header.lane_id] = run
            self._slot.enter_beside(run.header.first_seq)
            run.open()
            self._slot.calls.wait(run.header.first_seq)
            return run

    def end(self, run: PendingRun) -> None:
        """Say that all of a run has ended, or was given back (main thread)."""
        with self._lock:
            del self._begun[run.header.lane_id]

    def next_batch(self) -> list[PendingRun]:
        """Return the runs of the next batch, opened; empty where none waits (main thread).

        None of them can be given back any more.
        """
        with self._lock:
            batch: list[PendingRun] = []
            while self._waiting and (not batch or self._waiting[0].together is batch[0].together):
                batch.append(self._waiting.popleft())
            if batch:
                self._slot.enter_run(batch[0].header.first_seq)
            for run in batch:
                run.open()
            return batch

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, and more may come (main thread)."""
        return not (self._waiting or self._is_stopping)

    @property
    def is_finished(self) -> bool:
        """Whether nothing waits, and nothing will come (main thread)."""
        return self._is_stopping and not self._waiting

    def fail(self, run: PendingRun, seq: int, reason: str) -> None:
        """Say that record `seq` of `run` failed: whatever follows it in its lane goes back (main thread)."""
        with self._lock:
            # Under the lock: no later run of the lane can be entered before all of it is given back.
            self._send(encode_failed(seq, seq + 1, reason))
            if (
                run.header.lane_id == run.header.place_id
            ):  # else it is the lane of one key: nothing is behind it
                self._closed_epochs[run.header.lane_id] = run.header.epoch
            self._give_back_lane(run.header.lane_id)

    def _give_back_lane(self, lane_id: int) -> None:
        known = [*self._begun.values(), *self._waiting, *self._incomplete]
        runs = [run for run in known if run.header.lane_id == lane_id]
        self._waiting = deque(run for run in self._waiting if run not in runs)
        self._incomplete = [run for run in self._incomplete if run not in runs]
        self._give_back(runs)

    def _give_back(self, runs: list[PendingRun]) -> None:
        spans = [span for run in runs if (span := run.give_back())]
        if spans:
            self._send(encode_returned(spans))


# In portions: what is skipped needn't be in memory as a whole.
_SKIP_COUNT = 500


def no_decoder(_: Buffer, __: int = 0, **___: bool) -> DecodedRecords:
    """Stand in for a decoder where all records come decoded."""
    raise AssertionError("the trigger has named no decoder")


class ReceivedChunk:
    """An undecoded chunk, which is decoded no further than it is read.

    Not for two threads at once: the inbox holds its lock.
    """

    def __init__(self, data: bytes, decode: Decode) -> None:
        self._data = data
        self._decode = decode
        self._records: DecodedRecords
        self._at: int | None = None  # how many were read; None where it has to begin anew

    def read(self, skip: int, count: int) -> Sequence[WireRecord]:
        """Decode and return `count` records, without the first `skip` of the chunk."""
        if self._at is None or skip < self._at:
            self._records, self._at = self._decode(self._data, skip), skip
        while self._at < skip:  # another worker has had those
            self._at += len(self._records.read(min(skip - self._at, _SKIP_COUNT)))
        self._at = skip + count
        return self._records.read(count)


class ReceivedChunks:
    """Chunks that slices refer to, kept by the same rule as at the processor's end."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._kept: ChunkCache[ReceivedChunk] = ChunkCache()
        self._new = b""  # the next slice says its name

    def receive(self, data: bytes) -> None:
        """Take in a chunk, of which the next slice is the first."""
        self._new = data

    def of_slice(self, chunk_id: int, *, is_end: bool) -> ReceivedChunk:
        """Return the chunk that a slice refers to; with `is_end` for the last time."""
        chunk = self._kept.get(chunk_id)
        if chunk is None:
            chunk = ReceivedChunk(self._new, self._decode)
            self._kept.put(chunk_id, chunk, len(self._new))
            self._new = b""
        if is_end:
            self._kept.drop(chunk_id)
        return chunk
