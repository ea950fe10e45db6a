"""Records run through a handler in this process, without a broker.

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
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.records import FrameKind
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
"""The handler and its init_context. Raises HandlerNotLoadedError."""


def placed(records: Iterable[TrialInput]) -> Iterator[tuple[PartitionKey, TrialRecord]]:
    """Each with its place. Raises ValueError for offsets that go back."""
    nexts: dict[Partition, int] = defaultdict(int)
    for given in records:
        record = given if isinstance(given, Record | Range) else Record(given)
        key = PartitionKey(record.topic, record.partition)
        offset = nexts[key] if record.offset is None else record.offset
        first = record.first_offset if isinstance(record, Range) else offset
        if not nexts[key] <= first <= offset:
            raise ValueError(f"offset {first} of {key} comes after a higher one")
        nexts[key] = offset + 1
        if isinstance(record, Range):
            value = wire.encode_range(first)
            yield key, TrialRecord(offset, value, attempt=record.attempt, first=first)
        else:
            ms, kind = (-1, None) if record.timestamp_ms is None else (record.timestamp_ms, 0)
            yield key, TrialRecord(offset, record.body, record.key, record.headers, ms, kind, record.attempt)


@contextmanager
def kept_logs(keep: Callable[[LogLine], None], level: int = logging.INFO) -> Iterator[None]:
    """What is logged meanwhile, from this level on, which a worker would send."""

    def take(line: dict[str, Any]) -> None:
        name = logging.getLevelName(line["level"]).lower()
        keep(LogLine(name, line["message"], line["with"], line.get("source", ""), line.get("error", "")))

    root, handler = logging.getLogger(), WireLogHandler(take)
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(before, level))
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


async def _end_background(seconds: float) -> None:
    """Tasks that are left may end by themselves; then they are cancelled."""
    others: set[asyncio.Task[Any]] = set()
    try:
        async with asyncio.timeout(seconds):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
    except TimeoutError:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


Running: TypeAlias = Sequence[tuple[TrialLane, TrialRecord]]


class Trial:
    """Stands where a worker's process is to its processor, and where its socket is to the worker."""

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
        self._book = TrialListener(self._lanes, policy.ack_mode, refuse, is_cumulative=policy.is_cumulative)
        in_flight, known = InFlight(), dict[int, Lane]()
        self._outbox = FrameSender(0, _ToWorker(self), in_flight, known)
        self._book.confirm = self._outbox.send_frame
        self._news = FrameReceiver(0, in_flight, known, self._book, on_ready=lambda: None)
        self._lock = threading.Lock()
        self._handler: Callable[[Any, Any], Any]
        self.worker: WorkerLoop

    def result(self, logs: Sequence[LogLine]) -> TrialResult:
        """Once it has run."""
        committed = {key: lane.ledger.committable for key, lane in self._lanes.items()}
        seconds, produced = self._book.handler_ns / 1e9, self._book.produced
        metrics = self._metrics()
        return TrialResult(self._outcomes(), committed, logs, self.context, produced, seconds, metrics)

    def _outcomes(self) -> list[Outcome]:
        """Of all records, in order."""
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
        """By name and labels, as a scrape shows them; without buckets."""
        return {
            _shown(sample.name, sample.labels): sample.value
            for family in self._book.metrics.collect()
            for sample in family.samples
            if "le" not in sample.labels
        }

    # ---- in the handler's thread

    def run(self, load: Load, prepare: Callable[[Any], None], background_seconds: float) -> None:
        """Like a worker process that is told to stop once it has nothing left to do.

        `prepare` gets the context, before init_context does. Raises HandlerNotLoadedError.
        """
        slot = ProgressSlot(-1, Lease.create(1))
        loop = WorkerEventLoop(runs_for_sync_code=self._start.running_event_loop)
        self.worker = WorkerLoop(self, slot, self._start, loop)
        try:
            handler, init_context = load()
            self._handler = handler.call

            def begin(context: Any) -> Any:
                prepare(context)
                return init_context(context) if init_context else None

            self.worker.use(Handler(self._call, handler.is_async), begin)
            self._outbox.send_frame(
                wire.json_frame(FrameKind.OWNED, self._owned()), wire.frame(FrameKind.STOP)
            )
            self._book.returned = [(self._lanes[key], 1) for key, _ in self._placed]
            while self._book.returned:
                returned, self._book.returned = self._book.returned, []
                self._hand_out(returned)
                if not self._book.returned:
                    loop.run_until_complete(_end_background(background_seconds))  # which may nack some
            self.worker.metrics.flush()
        finally:
            loop.close()
            slot.close()

    def _owned(self) -> dict[str, dict[int, str]]:
        owned: dict[str, dict[int, str]] = defaultdict(dict)
        for topic, partition in self._lanes:
            owned[topic][partition] = ""
        return owned

    def _hand_out(self, turns: Iterable[tuple[TrialLane, int]]) -> None:
        """As many records of these lanes, in this order; then have them handled."""
        parts = [
            (lane, lane.take(sum(count for _, count in group)))
            for lane, group in groupby(turns, key=itemgetter(0))
        ]
        if self._start.is_batch:
            self._outbox.send_batch(parts)
        else:
            for lane, records in parts:
                for run in by_attempt(lane, records):
                    self._outbox.send(lane, run)
        self.worker.run_forever()

    def _call(self, context: Any, given: Any) -> Any:
        """The user's handler, with an eye on what it is given and what it returns."""
        self.context = context
        events = given if self._start.is_batch else [given]
        self._book.running = [self._by_place[it.topic, it.shard_id, it.offset] for it in events]
        result = self._handler(context, given.copy() if self._start.is_batch else given)
        if inspect.iscoroutine(result):
            return self._awaited(self._book.running, result)
        return self._returns(self._book.running, result)

    async def _awaited(self, running: Running, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._returns(running, await coroutine)

    def _returns(self, running: Running, result: Any) -> Any:
        for _, record in running:
            record.result = result
        return result

    # ---- in any thread of the worker's

    def send(self, data: bytes) -> None:
        """What a worker says goes to its processor: here."""
        with self._lock:
            for kind, body in wire.split_frames(bytearray(data)):
                self._news.on_frame(kind, body)
            self._news.on_read()


class _ToWorker:
    """The outbox's sink."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def send(self, *data: wire.Buffer) -> None:
        """As Sink says."""
        for kind, body in wire.split_frames(bytearray().join(data)):
            handle_frame(self._trial.worker, kind, body)

    def flush(self) -> None:
        """As Sink says."""


def _lanes_of(
    placed_ones: Iterable[tuple[PartitionKey, TrialRecord]], max_attempts: int
) -> dict[Partition, TrialLane]:
    records: dict[PartitionKey, list[TrialRecord]] = defaultdict(list)
    for key, record in placed_ones:
        records[key].append(record)
    return {key: TrialLane(key, of_one, max_attempts) for key, of_one in records.items()}


def _shown(name: str, labels: Mapping[str, str]) -> str:
    pairs = [f'{label}="{value}"' for label, value in labels.items() if label != "worker_index"]
    return f"{name}{{{','.join(pairs)}}}" if pairs else name
