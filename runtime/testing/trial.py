"""A handler run on records in this process, without a broker: for tests of handlers.

The worker's own main loop calls the handler and judges what it returned; what it would tell its processor is
kept here instead. `headrace.testing` is the public name of this.
"""

import asyncio
import inspect
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

from headrace.runtime.config.delivery import AckMode
from headrace.runtime.partitions.ledger import Ledger
from headrace.runtime.testing.results import LogLine, Outcome, Partition, Record, TrialResult
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.frames import Ack, Headers, Kind, RunHeader
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.worker.handler import Handler, is_async, provide_nuclio
from headrace.runtime.worker.loop import WorkerLoop
from headrace.runtime.worker.output import WireLogHandler

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
) -> TrialResult:
    """Call `handler`, sync or async, on each record in order, or with `is_batch` once on all of them.

    Bytes stand for a Record with this body. A record that fails is not tried again, and those behind it are
    handled all the same. Tasks that the handler leaves behind get `background_seconds` to end. It all happens
    in a thread with an event loop of its own. Raises HandlerNotLoadedError, with its traceback, where
    init_context raises, and ValueError for offsets that go back.
    """
    trial = _Trial(handler, list(_placed(records)), AckMode(explicit_ack_mode), is_cumulative, is_batch)
    with ThreadPoolExecutor(1, "handler") as thread, _logs() as logs:
        thread.submit(trial.run, init_context, background_seconds).result()
    return TrialResult(trial.outcomes(), trial.committed(), logs, trial.context)


@dataclass(slots=True)
class _WireRecord:
    offset: int
    timestamp: int
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(slots=True)
class _Sent:
    """A record, and what is known of it so far."""

    record: Record
    offset: int
    result: Any = None
    failure: str | None = None

    @property
    def partition(self) -> Partition:
        return self.record.topic, self.record.partition

    def on_the_wire(self) -> _WireRecord:
        record = self.record
        ms, kind = (-1, None) if record.timestamp_ms is None else (record.timestamp_ms, 0)
        return _WireRecord(self.offset, ms, kind, record.key, record.body, record.headers)


def _placed(records: Iterable[Record | bytes | None]) -> Iterator[_Sent]:
    nexts: dict[Partition, int] = defaultdict(int)
    for given in records:
        record = given if isinstance(given, Record) else Record(given)
        key = record.topic, record.partition
        offset = nexts[key] if record.offset is None else record.offset
        if offset < nexts[key]:
            raise ValueError(f"offset {offset} of {record.topic}/{record.partition} comes after a higher one")
        nexts[key] = offset + 1
        yield _Sent(record, offset)


@contextmanager
def _logs() -> Iterator[list[LogLine]]:
    """What is logged meanwhile, from the level on that a worker sends."""
    lines: list[LogLine] = []

    def keep(line: dict[str, Any]) -> None:
        lines.append(LogLine(logging.getLevelName(line["level"]).lower(), line["message"], line["with"]))

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
    """Stands where a worker's processor is: gives it runs, and hears what became of their records."""

    def __init__(
        self,
        handler: Callable[[Any, Any], Any],
        sent: Sequence[_Sent],
        ack_mode: AckMode,
        is_cumulative: bool,
        is_batch: bool,
    ) -> None:
        self.context: Any = None
        self._handler = handler
        self._sent = sent
        self._ack_mode = ack_mode
        self._is_cumulative = is_cumulative
        self._is_batch = is_batch
        self._by_place = {(*one.partition, one.offset): one for one in sent}
        self._ledgers: dict[Partition, Ledger] = {}
        for one in sent:
            self._ledgers.setdefault(one.partition, Ledger(one.offset)).add(one.offset, one.offset + 1)
        self._lock = threading.Lock()
        self._by_seq: list[_Sent | None] = []  # None: returned, it has another seq now
        self._decided = 0  # what lies before this seq has an outcome
        self._returned: list[_Sent] = []

    def outcomes(self) -> list[Outcome]:
        """Of all records, in order."""
        return [
            Outcome(
                *one.partition,
                one.offset,
                one.result,
                one.failure,
                is_acked=not self._ledgers[one.partition].is_open(one.offset),
            )
            for one in self._sent
        ]

    def committed(self) -> dict[Partition, int]:
        """By partition."""
        return {partition: ledger.committable for partition, ledger in self._ledgers.items()}

    # ---- in the handler's thread

    def run(self, init_context: Any, background_seconds: float) -> None:
        """Like a worker process that is told to stop once it has nothing left to do."""
        slot = ProgressSlot(-1, Lease.create(1))
        start = WorkerStart(
            "",
            self._handler.__module__,
            "",
            0,
            "kafka-cluster",
            "test",
            self._ack_mode.value,
            is_cumulative=self._is_cumulative,
            takes_acks=self._ack_mode.is_explicit,
            is_batch=self._is_batch,
        )
        worker = WorkerLoop(self, slot, asdict(start))
        loop = asyncio.get_event_loop()  # the worker's
        try:
            worker.use(Handler(self._call, is_async(self._handler)), init_context)
            self._assign(worker)
            worker.inbox.stop()
            waiting = [*self._sent]
            while waiting:
                for run in self._runs(waiting):
                    worker.receive(Kind.RUN, run)
                worker.run_forever()
                waiting, self._returned = self._returned, []
            loop.run_until_complete(_end_background(background_seconds))
        finally:
            loop.close()
            slot.close()

    def _assign(self, worker: WorkerLoop) -> None:
        owned: dict[str, list[int]] = {}
        for number, (topic, partition) in enumerate(self._ledgers):
            worker.add_partition(number, topic, partition)
            owned.setdefault(topic, []).append(partition)
        worker.acks.own(owned)

    def _runs(self, waiting: Sequence[_Sent]) -> Iterator[bytes]:
        ids = {partition: number for number, partition in enumerate(self._ledgers)}
        epoch = len(self._by_seq)  # higher each time: a failure closes those before
        for (partition, attempt), group in groupby(waiting, lambda one: (one.partition, one.record.attempt)):
            run = list(group)
            has_more = self._is_batch and run[-1] is not waiting[-1]
            header = RunHeader(ids[partition], epoch, len(self._by_seq), attempt, len(run), has_more=has_more)
            self._by_seq += run
            frame = wire.encode_run(header, [one.on_the_wire() for one in run])
            yield from (body for _, body in wire.split_frames(bytearray(frame)))

    def _call(self, context: Any, given: Any) -> Any:
        """The user's handler, with an eye on what it returns."""
        self.context = context
        result = self._handler(context, given)
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
                self._hear(kind, body)

    def _hear(self, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.PROGRESS:
                self._handled_before(wire.decode_progress(body)[0])
            case Kind.UNACKED:
                seq = wire.decode_seq(body)
                self._handled_before(seq)
                self._decided = seq + 1
            case Kind.FAILED:
                first, end, reason = wire.decode_failed(body)
                self._handled_before(first)
                for one in filter(None, self._by_seq[first:end]):
                    one.failure = reason
                self._decided = end
            case Kind.RETURNED:
                for first, end in wire.decode_returned(body):
                    self._returned += filter(None, self._by_seq[first:end])
                    self._by_seq[first:end] = [None] * (end - first)
            case Kind.ACK:
                self._acked(wire.decode_ack(body))
            case Kind.ACKED:
                number, first, end = wire.decode_acked(body)
                [*self._ledgers.values()][number].settle(first, end)

    def _handled_before(self, seq: int) -> None:
        for one in filter(None, self._by_seq[self._decided : seq]):
            if self._ack_mode is not AckMode.EXPLICIT_ONLY:
                self._ledgers[one.partition].settle(one.offset, one.offset + 1)
        self._decided = max(self._decided, seq)

    def _acked(self, ack: Ack) -> None:
        first = 0 if ack.is_through or self._is_cumulative else ack.offset
        self._ledgers[ack.topic, ack.partition].settle(first, ack.offset + 1)
