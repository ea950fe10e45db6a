"""A handler run on records in this process, without a broker: for tests of handlers.

The worker's own main loop calls the handler and judges what it returned; the other half of the wire is a
processor's own Outbox, InFlight and News. `headrace.testing` is the public name of this.
"""

import asyncio
import inspect
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, TypeAlias

from headrace.runtime.config.delivery import AckMode, DeliveryPolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.book import Book
from headrace.runtime.testing.lane import TrialLane, TrialRecord
from headrace.runtime.testing.results import LogLine, Outcome, Partition, Record, TrialResult
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.frames import Kind
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.slots.progress import ProgressSlot
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.calls.handler import Handler, is_async, provide_nuclio
from headrace.runtime.worker.given.event_loop import WorkerEventLoop
from headrace.runtime.worker.loop import WorkerLoop
from headrace.runtime.worker.orders import obey
from headrace.runtime.worker.output import WireLogHandler
from headrace.runtime.workers.in_flight import InFlight
from headrace.runtime.workers.news import News
from headrace.runtime.workers.outbox import Outbox, by_attempt

ExplicitAckMode: TypeAlias = Literal["disable", "enable", "explicitOnly"]

provide_nuclio()  # what is tested imports it before any worker does


def run_handler(  # noqa: PLR0913  # what function.yaml says of a handler
    handler: Callable[[Any, Any], Any],
    records: Iterable[Record | bytes | None],
    *,
    init_context: Callable[[Any], Any] | None = None,
    explicit_ack_mode: ExplicitAckMode = "disable",
    is_cumulative: bool = False,
    is_batch: bool = False,
    background_seconds: float = 5.0,
    call_function: Callable[[str, Any], Any] | None = None,
    result_topic: str = "",
) -> TrialResult:
    """Call `handler`, sync or async, on each record in order, or with `is_batch` once on all of them.

    Bytes stand for a Record with this body. A record that fails is not tried again, and those behind it are
    handled all the same. Tasks that the handler leaves behind get `background_seconds` to end. It all happens
    in a thread with an event loop of its own. `call_function` answers, by name and event, where the handler
    calls other functions; without it such a call raises RuntimeError. What it produces is confirmed at once;
    with `result_topic`, what it returns is produced there. Raises HandlerNotLoadedError, with its traceback,
    where init_context raises, and ValueError for offsets that go back.
    """
    policy = DeliveryPolicy(
        ack_mode=AckMode(explicit_ack_mode),
        explicit_ack_semantics="cumulative" if is_cumulative else "individual",
        result_topic=result_topic,
    )
    trial = _Trial(handler, list(_placed(records)), policy, is_batch)
    with ThreadPoolExecutor(1, "handler") as thread, _logs() as logs:
        begin = _with_calls(call_function or _nobody, init_context)
        thread.submit(trial.run, begin, background_seconds).result()
    return TrialResult(
        trial.outcomes(), trial.committed(), logs, trial.context, trial.produced(), trial.metrics()
    )


_Placed: TypeAlias = tuple[PartitionKey, TrialRecord]


def _placed(records: Iterable[Record | bytes | None]) -> Iterator[_Placed]:
    nexts: dict[Partition, int] = defaultdict(int)
    for given in records:
        record = given if isinstance(given, Record) else Record(given)
        key = PartitionKey(record.topic, record.partition)
        offset = nexts[key] if record.offset is None else record.offset
        if offset < nexts[key]:
            raise ValueError(f"offset {offset} of {key} comes after a higher one")
        nexts[key] = offset + 1
        ms, kind = (-1, None) if record.timestamp_ms is None else (record.timestamp_ms, 0)
        about = (record.key, record.headers, ms, kind, record.attempt)
        yield key, TrialRecord(offset, record.body, *about)


def _with_calls(
    call_function: Callable[[str, Any], Any], init_context: Callable[[Any], Any] | None
) -> Callable[[Any], Any]:
    """An init_context that has other functions called by `call_function`."""

    def begin(context: Any) -> Any:
        context.platform.calls = lambda name, event, *_: call_function(name, event)
        return init_context(context) if init_context else None

    return begin


def _nobody(name: str, _: Any) -> Any:
    raise RuntimeError(
        f"call_function({name!r}): no other function runs in a test; give run_handler call_function=..., "
        "which is called with name and event and returns the answer"
    )


@contextmanager
def _logs() -> Iterator[list[LogLine]]:
    """What is logged meanwhile, from the level on that a worker sends."""
    lines: list[LogLine] = []

    def keep(line: dict[str, Any]) -> None:
        level, more = (
            logging.getLevelName(line["level"]).lower(),
            (line.get("source", ""), line.get("error", "")),
        )
        lines.append(LogLine(level, line["message"], line["with"], *more))

    root, handler = logging.getLogger(), WireLogHandler(keep)
    level = root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        yield lines
    finally:
        root.setLevel(level)
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


class _Trial:
    """Stands where a worker's process is to its processor, and where its socket is to the worker."""

    def __init__(
        self,
        handler: Callable[[Any, Any], Any],
        placed: Sequence[_Placed],
        policy: DeliveryPolicy,
        is_batch: bool,
    ) -> None:
        self.context: Any = None
        self._handler = handler
        self._placed = placed
        self._is_batch = is_batch
        self._by_place = {(*key, record.offset): record for key, record in placed}
        self._lanes = _lanes_of(placed)
        self._book = Book(self._lanes, policy.ack_mode, is_cumulative=policy.is_cumulative)
        in_flight, known = InFlight(), dict[int, Lane]()
        self._outbox = Outbox(0, _ToWorker(self), in_flight, known)
        self._book.confirm = self._outbox.send_frame
        self._news = News(0, in_flight, known, self._book, on_ready=lambda: None)
        self._lock = threading.Lock()
        self._start = WorkerStart(
            folder="",
            module=handler.__module__,
            function="",
            worker_id=0,
            trigger_kind="kafka-cluster",
            trigger_name="test",
            ack_mode=policy.ack_mode.value,
            is_cumulative=policy.is_cumulative,
            takes_acks=policy.ack_mode.is_explicit,
            result_topic=policy.result_topic,
            outputs=None,
            is_batch=is_batch,
        )
        self.worker: WorkerLoop

    def outcomes(self) -> list[Outcome]:
        """Of all records, in order."""
        return [
            Outcome(
                *key,
                record.offset,
                record.result,
                record.failure,
                is_acked=not self._lanes[key].ledger.is_open(record.offset),
            )
            for key, record in self._placed
        ]

    def produced(self) -> list[Message]:
        """By all records, in order."""
        return self._book.produced

    def metrics(self) -> dict[str, float]:
        """By name and labels, as a scrape shows them; without buckets."""
        return {
            _shown(sample.name, sample.labels): sample.value
            for family in self._book.metrics.collect()
            for sample in family.samples
            if "le" not in sample.labels
        }

    def committed(self) -> dict[Partition, int]:
        """By partition."""
        return {key: lane.ledger.committable for key, lane in self._lanes.items()}

    # ---- in the handler's thread

    def run(self, init_context: Any, background_seconds: float) -> None:
        """Like a worker process that is told to stop once it has nothing left to do."""
        slot = ProgressSlot(-1, Lease.create(1))
        loop = WorkerEventLoop()
        self.worker = WorkerLoop(self, slot, self._start, loop)
        try:
            self.worker.use(Handler(self._call, is_async(self._handler)), init_context)
            self._outbox.send_frame(wire.json_frame(Kind.OWNED, self._owned()), wire.frame(Kind.STOP))
            self._hand_out([(self._lanes[key], 1) for key, _ in self._placed])
            while returned := self._book.returned:
                self._book.returned = []
                self._hand_out(returned)
            loop.run_until_complete(_end_background(background_seconds))
            self.worker.metrics.flush()
        finally:
            loop.close()
            slot.close()

    def _owned(self) -> dict[str, list[int]]:
        owned: dict[str, list[int]] = defaultdict(list)
        for topic, partition in self._lanes:
            owned[topic].append(partition)
        return owned

    def _hand_out(self, turns: Iterable[tuple[TrialLane, int]]) -> None:
        """As many records of these lanes, in this order; then have them handled."""
        parts = [
            (lane, lane.take(sum(count for _, count in group)))
            for lane, group in groupby(turns, key=itemgetter(0))
        ]
        if self._is_batch:
            self._outbox.send_batch(parts)
        else:
            for lane, records in parts:
                for run in by_attempt(lane, records):
                    self._outbox.send(lane, run)
        self.worker.run_forever()

    def _call(self, context: Any, given: Any) -> Any:
        """The user's handler, with an eye on what it returns."""
        self.context = context
        result = self._handler(context, given.copy() if self._is_batch else given)
        if inspect.iscoroutine(result):
            return self._awaited(given, result)
        return self._returns(given, result)

    async def _awaited(self, given: Any, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._returns(given, await coroutine)

    def _returns(self, given: Any, result: Any) -> Any:
        for event in given if self._is_batch else [given]:
            self._by_place[event.topic, event.shard_id, event.offset].result = result
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

    def __init__(self, trial: _Trial) -> None:
        self._trial = trial

    def send(self, *data: wire.Buffer) -> None:
        """As Sink says."""
        for kind, body in wire.split_frames(bytearray().join(data)):
            obey(self._trial.worker, kind, body)

    def flush(self) -> None:
        """As Sink says."""


def _lanes_of(placed: Iterable[_Placed]) -> dict[Partition, TrialLane]:
    records: dict[PartitionKey, list[TrialRecord]] = defaultdict(list)
    for key, record in placed:
        records[key].append(record)
    return {key: TrialLane(key, of_one) for key, of_one in records.items()}


def _shown(name: str, labels: Mapping[str, str]) -> str:
    pairs = [f'{label}="{value}"' for label, value in labels.items() if label != "worker_index"]
    return f"{name}{{{','.join(pairs)}}}" if pairs else name
