"""A trial: records run through a handler in this process, without a broker.

The worker's own main loop calls the handler and judges what it returned; the other half of the wire is a
processor's own FrameSender, InFlight and FrameReceiver.
"""

import asyncio
import inspect
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.results import LogLine, Outcome, Partition, Range, Record, TrialResult
from headrace.runtime.testing.trial_lane import TrialLane, TrialRecord
from headrace.runtime.testing.trial_listener import RefuseMessage, TrialListener
from headrace.runtime.wire.framing import Buffer, FrameKind, frame, json_frame, split_frames
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import encode_range
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.frame_handler import handle_frame
from headrace.runtime.worker.handler import Handler
from headrace.runtime.worker.loop import WorkerLoop
from headrace.runtime.worker.output import WireLogHandler
from headrace.runtime.workers.in_flight import InFlight
from headrace.runtime.workers.receiver import FrameReceiver
from headrace.runtime.workers.sender import FrameSender, by_attempt

TrialInput: TypeAlias = Record | Range | bytes | None
Load: TypeAlias = Callable[[], tuple[Handler, Callable[[Any], Any] | None]]
"""Returns the handler and its init_context. Raises HandlerNotLoadedError."""


def placed(records: Iterable[TrialInput]) -> Iterator[tuple[PartitionKey, TrialRecord]]:
    """Yield each record with its partition. Raises ValueError for offsets that go back."""
    nexts: dict[Partition, int] = defaultdict(int)
    for item in records:
        record = item if isinstance(item, Record | Range) else Record(item)
        key = PartitionKey(record.topic, record.partition)
        offset = nexts[key] if record.offset is None else record.offset
        first = record.first_offset if isinstance(record, Range) else offset
        # A partition's offsets only grow, and the ledger of its lane relies on that.
        if not nexts[key] <= first <= offset:
            raise ValueError(f"offset {first} of {key} comes after a higher one")
        nexts[key] = offset + 1
        if isinstance(record, Range):
            value = encode_range(first)
            yield key, TrialRecord(offset, value, attempt=record.attempt, first=first)
        else:
            ms, kind = (-1, None) if record.timestamp_ms is None else (record.timestamp_ms, 0)
            yield key, TrialRecord(offset, record.body, record.key, record.headers, ms, kind, record.attempt)


@contextmanager
def kept_logs(keep: Callable[[LogLine], None], level: int = logging.INFO) -> Iterator[None]:
    """Keep what is logged meanwhile, from this level on, which a worker would send."""

    def take(line: dict[str, Any]) -> None:
        name = logging.getLevelName(line["level"]).lower()
        keep(LogLine(name, line["message"], line["with"], line.get("source", ""), line.get("error", "")))

    root, handler = logging.getLogger(), WireLogHandler(take)
    before = root.level
    root.addHandler(handler)
    # Only ever lower: the test may have asked for more.
    root.setLevel(min(before, level))
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


async def _end_background(seconds: float) -> None:
    """Give tasks that are left `seconds` to end by themselves, then cancel them."""
    others: set[asyncio.Task[Any]] = set()
    try:
        async with asyncio.timeout(seconds):
            # Again and again: a task that ends may have started another one.
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
    except TimeoutError:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


Running: TypeAlias = Sequence[tuple[TrialLane, TrialRecord]]


class Trial:
    """A trial. Stands where a worker's process is to its processor, and where its socket is to the worker."""

    def __init__(
        self,
        records: Iterable[TrialInput],
        policy: DeliveryPolicy,
        start: WorkerStart,
        refuse: RefuseMessage = lambda _: "",
    ) -> None:
        """`refuse` says why a message that is produced can't be written; nothing where it can.

        Raises ValueError for offsets that go back.
        """
        self.context: Any = None
        self._start = start
        self._placed = list(placed(records))
        self._lanes = _lanes_of(self._placed, policy.failure.max_attempts)
        self._by_place = {(*key, record.offset): (self._lanes[key], record) for key, record in self._placed}
        # A processor's own bookkeeping of one worker, whose index is 0.
        in_flight, known = InFlight(), dict[int, Lane]()
        self._sender = FrameSender(0, in_flight, known, self._send_to_worker)
        self._listener = TrialListener(
            self._lanes,
            policy.ack_mode,
            refuse,
            self._sender.send_frame,
            is_cumulative=policy.is_cumulative,
        )
        self._receiver = FrameReceiver(0, in_flight, known, self._listener, on_ready=lambda: None)
        self._lock = threading.Lock()
        self._handler: Callable[[Any, Any], Any]
        self.worker: WorkerLoop

    def result(self, logs: Sequence[LogLine]) -> TrialResult:
        """Return what has become of the records, once the trial has run."""
        committed = {key: lane.ledger.committable for key, lane in self._lanes.items()}
        seconds, produced = self._listener.handler_ns / 1e9, self._listener.produced
        metrics = self._metrics()
        return TrialResult(self._outcomes(), committed, logs, self.context, produced, seconds, metrics)

    def _outcomes(self) -> list[Outcome]:
        """Return the outcomes of all records, in order."""
        return [
            Outcome(
                *key,
                record.offset,
                record.result,
                record.failure,
                is_acked=not self._lanes[key].ledger.is_open(record.offset),
                attempt=record.attempt,
                produced=record.produced,
            )
            for key, record in self._placed
        ]

    def _metrics(self) -> dict[str, float]:
        """Return metrics by name and labels, as a scrape shows them; without buckets."""
        return {
            _shown(sample.name, sample.labels): sample.value
            for family in self._listener.metrics.collect()
            for sample in family.samples
            # A histogram is told by its sum and count: its buckets would be most of the result.
            if "le" not in sample.labels
        }

    # ---- in the handler's thread

    def run(self, load: Load, prepare: Callable[[Any], None], background_seconds: float) -> None:
        """Run the records, as a worker process that is told to stop once it has nothing left to do.

        `prepare` gets the context, before init_context does. Raises HandlerNotLoadedError.
        """
        slot = ProgressSlot(-1, Lease.create(1))
        loop = WorkerEventLoop(runs_for_sync_code=self._start.running_event_loop)
        self.worker = WorkerLoop(self.send, slot, self._start, loop)
        try:
            handler, init_context = load()
            self._handler = handler.call

            def begin(context: Any) -> Any:
                prepare(context)
                return init_context(context) if init_context else None

            self.worker.use(Handler(self._call, handler.is_async), begin)
            self._sender.send_frame(json_frame(FrameKind.OWNED, self._owned()), frame(FrameKind.STOP))
            # Told to stop already, the loop ends each time that its inbox is empty; it is run again for what
            # comes back.
            self._listener.returned = [(self._lanes[key], 1) for key, _ in self._placed]
            while self._listener.returned:
                returned, self._listener.returned = self._listener.returned, []
                self._hand_out(returned)
                if not self._listener.returned:
                    loop.run_until_complete(_end_background(background_seconds))  # which may nack some
            # The worker sends metrics now and then: what the last records have added is still with it.
            self.worker.metrics.flush()
        finally:
            loop.close()
            slot.close()

    def _owned(self) -> dict[str, dict[int, str]]:
        owned: dict[str, dict[int, str]] = defaultdict(dict)
        for topic, partition in self._lanes:
            # No log has a stamp here: no topic is made anew in a trial.
            owned[topic][partition] = ""
        return owned

    def _hand_out(self, turns: Iterable[tuple[TrialLane, int]]) -> None:
        """Hand out as many records of these lanes as they say, in this order; then have them handled."""
        parts = [
            (lane, lane.take(sum(count for _, count in group)))
            for lane, group in groupby(turns, key=itemgetter(0))
        ]
        if self._start.is_batch:
            self._sender.send_batch(parts)
        else:
            for lane, records in parts:
                for run in by_attempt(lane, records):
                    self._sender.send(lane, run)
        self.worker.run_forever()

    def _call(self, context: Any, event_or_batch: Any) -> Any:
        """Call the user's handler, and keep what it is given and what it returns."""
        self.context = context
        events = event_or_batch if self._start.is_batch else [event_or_batch]
        self._listener.running = [self._by_place[it.topic, it.shard_id, it.offset] for it in events]
        # A copy: a handler may change its list, and outcomes are told of what was handed over.
        result = self._handler(context, event_or_batch.copy() if self._start.is_batch else event_or_batch)
        if inspect.iscoroutine(result):
            return self._awaited(self._listener.running, result)
        return self._returns(self._listener.running, result)

    async def _awaited(self, running: Running, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._returns(running, await coroutine)

    def _returns(self, running: Running, result: Any) -> Any:
        for _, record in running:
            record.result = result
        return result

    def _send_to_worker(self, *data: Buffer) -> None:
        for kind, body in split_frames(bytearray().join(data)):
            handle_frame(self.worker, kind, body)

    # ---- in any thread of the worker's

    def send(self, data: bytes) -> None:
        """Take what the worker sends to its processor, in any thread of the worker."""
        # Handlers may ack and produce from any thread.
        with self._lock:
            for kind, body in split_frames(bytearray(data)):
                self._receiver.on_frame(kind, body)
            self._receiver.on_read()


def _lanes_of(
    placed_ones: Iterable[tuple[PartitionKey, TrialRecord]], max_attempts: int
) -> dict[Partition, TrialLane]:
    records: dict[PartitionKey, list[TrialRecord]] = defaultdict(list)
    for key, record in placed_ones:
        records[key].append(record)
    return {key: TrialLane(key, of_one, max_attempts) for key, of_one in records.items()}


def _shown(name: str, labels: Mapping[str, str]) -> str:
    # A trial has one worker, so its index tells nothing.
    pairs = [f'{label}="{value}"' for label, value in labels.items() if label != "worker_index"]
    return f"{name}{{{','.join(pairs)}}}" if pairs else name
