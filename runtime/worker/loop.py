"""The main thread of a worker process: one run or batch after another, and nothing else."""

import asyncio
import inspect
import os
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any

import nuclio_sdk

from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.chunk_cache import ChunkCache
from headrace.runtime.wire.frames import Kind
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.worker import results as handler_results
from headrace.runtime.worker.acks import WorkerAcks
from headrace.runtime.worker.callbacks import Callbacks
from headrace.runtime.worker.chunks import ReceivedChunk, load_decoder, no_decoder
from headrace.runtime.worker.context import create_context
from headrace.runtime.worker.event import PartitionView, RangeEvent, StreamEvent
from headrace.runtime.worker.handler import Handler, HandlerNotLoadedError, describe_failure, load_handler
from headrace.runtime.worker.inbox import Inbox, PendingRun
from headrace.runtime.worker.link import Sender
from headrace.runtime.worker.results import HandlerReturnedError, Outcome
from headrace.runtime.worker.spark import WorkerSpark

_LATE = "the handler returned after that"


class WorkerLoop:
    """Methods that say so are called by the link thread; the others belong to the main thread."""

    def __init__(self, link: Sender, slot: ProgressSlot, start: dict[str, Any]) -> None:
        self._link = link
        self._slot = slot
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)  # sync handlers may ask for it
        self._is_idle = False
        self._is_woken = False
        self._is_forked = False
        self.inbox = Inbox(link.send, self._wake, slot.enter)
        mode, takes_acks = start["ack_mode"], start["takes_acks"]
        is_cumulative = start["is_cumulative"]
        self.acks = WorkerAcks(link.send, slot, mode, takes_acks=takes_acks, is_cumulative=is_cumulative)
        self._may_ask_no_ack = mode == "enable"
        self._must_ack = mode == "explicitOnly"
        self._is_batch = start["is_batch"]
        self._event_type = RangeEvent if start["is_ranges"] else StreamEvent
        self._trigger = nuclio_sdk.TriggerInfo(start["trigger_kind"], start["trigger_name"])
        self._spark = WorkerSpark(
            start["spark_url"],
            start["spark_session_id"],
            start["spark_conf"],
            start["module"],
            on_new_id=lambda session_id: link.send(wire.frame(Kind.SPARK_SESSION, session_id.encode())),
        )
        self._context = create_context(
            start["worker_id"], self._trigger, self.acks, self._spark, start["source_options"]
        )
        self._callbacks = Callbacks(self._loop, self._is_in_sync_handler)
        self._partitions: dict[int, PartitionView] = {}
        self._chunks: ChunkCache[ReceivedChunk] = ChunkCache()
        self._new_chunk = b""  # the next slice says its name
        self._decode = load_decoder(start["decoder"]) if start["decoder"] else no_decoder
        self._handler: Handler
        self._task: asyncio.Task[Any] | None = None
        self._timed_out: int | None = None  # the last seq that ran past its time
        self._is_cancelled = False

    def load(self, folder: Path, module_name: str, function_name: str) -> None:
        """Import the handler and run its init_context. Raises HandlerNotLoadedError."""
        self.use(*load_handler(folder, module_name, function_name))

    def use(self, handler: Handler, init_context: Any) -> None:
        """Call this handler, after its init_context if there is one. Raises HandlerNotLoadedError."""
        self._handler = handler
        if init_context is None:
            return
        try:
            result = init_context(self._context)
            if inspect.isawaitable(result):
                self._loop.run_until_complete(_awaited(result))
        except BaseException as error:  # user code may raise anything
            text = f"init_context raised, in your code:\n{describe_failure(error)}"
            raise HandlerNotLoadedError(text) from None

    @property
    def is_async(self) -> bool:
        """Whether calls of the handler need a running event loop, and can be cancelled."""
        return self._handler.is_async

    # ---- for the link thread

    def add_partition(self, partition_id: int, topic: str, partition: int) -> None:
        """Runs name partitions by id."""
        view = self._partitions[partition_id] = PartitionView(topic, partition, self._trigger, partition_id)
        self.acks.add_partition(view)

    def forget_partition(self, partition_id: int) -> None:
        """Its assignment is over."""
        self._partitions.pop(partition_id, None)
        self.inbox.forget(partition_id)

    def receive(self, kind: Kind, body: bytes) -> None:
        """Records to handle, or a chunk that slices will refer to."""
        if kind is Kind.CHUNK:
            self._new_chunk = body
            return
        header = wire.decode_run_header(body)
        decode: Callable[[], Sequence[Any]]
        if kind is Kind.RUN:
            span, decode = wire.decode_run_span(body), partial(wire.decode_records, body)
        else:
            chunk_id, skip, first, is_end = wire.decode_slice(body)
            chunk = self._chunk(chunk_id, is_end=is_end)
            span, decode = (first, first + header.count), partial(chunk.read, skip, header.count)
        self._partitions[header.partition_id].received(*span)
        self.inbox.put(PendingRun(header, decode))

    def _chunk(self, chunk_id: int, *, is_end: bool) -> ReceivedChunk:
        """What a slice refers to, kept by the same rule as at the processor's end."""
        chunk = self._chunks.get(chunk_id)
        if chunk is None:
            chunk = ReceivedChunk(self._new_chunk, self._decode)
            self._chunks.put(chunk_id, chunk, len(self._new_chunk))
            self._new_chunk = b""
        if is_end:
            self._chunks.drop(chunk_id)
        return chunk

    def drain(self) -> None:
        """Partitions are being taken away."""
        self._callbacks.call("drain", self._context.platform.drain_callback)

    def terminate(self) -> None:
        """The replica stops."""
        self._callbacks.call("termination", self._context.platform.termination_callback)

    def time_out(self, seq: int) -> None:
        """If the handler, which is async, is still in `seq`: that has failed, and is cancelled."""
        if self._is_in(seq):
            self._timed_out = seq  # whatever it does now, and if it never lets its loop turn
            self._loop.call_soon_threadsafe(self._cancel, seq)

    def abandon(self) -> None:
        """In a process that the handler has forked: records, slot and event loop are its parent's."""
        self._is_forked = True
        self._slot.abandon()
        self.inbox.abandon()

    def _is_in_sync_handler(self) -> bool:
        return not self._handler.is_async and self._slot.read().is_running

    # ---- for the main thread

    def run_forever(self) -> None:
        """Until the processor says stop. While idle the event loop turns, so background tasks go on."""
        while not self.inbox.is_finished:
            work = self._next_work()
            if work is None:
                self._idle()
            elif self._handler.is_async:
                self._loop.run_until_complete(work)
            else:
                _step(work)
        self._callbacks.wait()

    def _next_work(self) -> Coroutine[Any, Any, None] | None:
        if self._is_batch:
            batch = self.inbox.next_batch()
            return self._handle_batch(batch) if batch else None
        run = self.inbox.next()
        return self._handle_run(run) if run else None

    def _idle(self) -> None:
        """Let the loop turn until something comes, which may have been already."""
        self._is_idle = True
        self._loop.run_forever()
        self._is_idle = False

    def _wake(self) -> None:
        if not self._is_woken:  # else it will look, once its loop turns
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._stop_idling)

    def _stop_idling(self) -> None:
        self._is_woken = False
        if self._is_idle:  # else it is a handler that has the loop turn
            self._loop.stop()

    def _cancel(self, seq: int) -> None:
        """On the loop: so whatever runs is at an await."""
        if self._is_in(seq) and self._task is not None and not self._task.done():  # else it was decoded
            self._is_cancelled = True
            self._task.cancel()

    def _is_in(self, seq: int) -> bool:
        now = self._slot.read()
        return now.is_running and now.seq == seq

    async def _handle_run(self, run: PendingRun) -> None:  # noqa: C901  # a call per record costs too much
        """All records of a run. Awaits nothing for a sync handler, which needs a loop that is not running."""
        call, is_async = self._handler.call, self._handler.is_async
        context, records = self._context, run.records
        # None where the partition is revoked by now: then the run was recalled, and is empty.
        partition: Any = self._partitions.get(run.header.partition_id)
        attempt = run.header.attempt
        seq = run.header.first_seq
        enter = self._slot.enter
        if is_async:
            self._task = asyncio.current_task()
        started_ns = time.perf_counter_ns()
        self.acks.running = partition
        while records:
            try:
                record = records.popleft()
            except IndexError:  # recalled between the test and the step
                break
            offset = record.offset
            if partition.has_acked_ahead and partition.is_acked(offset):
                seq += 1
                continue
            partition.entered = offset
            enter(seq)
            try:
                result = call(context, StreamEvent(record, partition, attempt))
                if type(result) is CoroutineType:  # what nearly all async handlers give
                    result = await result if is_async else self._loop.run_until_complete(result)
                if result is not None and handler_results.is_pending(result):
                    rest = handler_results.finish(result)
                    result = await rest if is_async else self._loop.run_until_complete(rest)
                if self._timed_out == seq:
                    raise HandlerReturnedError(_LATE)  # noqa: TRY301  # one way out
                if result is not None:
                    handler_results.check(result)
                    if self._may_ask_no_ack and handler_results.asks_no_ack(result):
                        self.acks.flush(wire.encode_seq(Kind.UNACKED, seq))
            except BaseException as error:  # user code may raise anything, SystemExit too
                self._end_fork(error)
                self.acks.flush()
                self.inbox.fail(run, seq, self._reason(error, seq))
            seq += 1
        self._end_fork()
        self._slot.leave(seq)
        elapsed_ns = time.perf_counter_ns() - started_ns
        self.acks.running = None
        self.acks.flush(wire.encode_progress(seq, elapsed_ns, seq - run.header.first_seq))

    async def _handle_batch(self, batch: Sequence[PendingRun]) -> None:
        """One call for all. Outcomes leave in one piece, with the progress: a kill finds all or nothing."""
        started_ns = time.perf_counter_ns()
        events = [
            (run.header.first_seq + i, self._event_type(record, partition, run.header.attempt))
            for run in batch
            if (partition := self._partitions.get(run.header.partition_id)) is not None
            for i, record in enumerate(run.records)
            if not (partition.has_acked_ahead and partition.is_acked(record.offset))
        ]
        end = batch[-1].header.first_seq + batch[-1].header.count
        frames: list[bytes] = []
        if events:
            self._slot.enter(events[0][0])
            outcomes = await self._call_batch([event for _, event in events], events[0][0])
            for (_, event), outcome in zip(events, outcomes, strict=True):
                is_over = outcome.failure is not None or not (self._must_ack or outcome.asks_no_ack)
                if is_over and isinstance(event, RangeEvent):
                    event.leave()
            for first, last, outcome in _spans([seq for seq, _ in events], outcomes):
                if outcome.failure is not None:
                    frames.append(wire.encode_failed(first, last + 1, outcome.failure))
                elif self._may_ask_no_ack and outcome.asks_no_ack:
                    frames += [wire.encode_seq(Kind.UNACKED, seq) for seq in range(first, last + 1)]
        elapsed_ns = time.perf_counter_ns() - started_ns
        self._link.send(b"".join((*frames, wire.encode_progress(end, elapsed_ns, len(events)))))
        self._slot.leave(end)

    async def _call_batch(self, events: list[StreamEvent], seq: int) -> list[Outcome]:
        is_async = self._handler.is_async
        if is_async:
            self._task = asyncio.current_task()
        for event in events:
            event.enter()
        try:
            result = self._handler.call(self._context, events)
            if handler_results.is_pending(result):
                rest = handler_results.finish(result)
                result = await rest if is_async else self._loop.run_until_complete(rest)
            if self._timed_out == seq:
                raise HandlerReturnedError(_LATE)  # noqa: TRY301  # one way out
            self._end_fork()
            return handler_results.outcomes(result, events)
        except BaseException as error:  # user code may raise anything, SystemExit too
            self._end_fork(error)
            self._spark.doubt()
            return [Outcome(self._reason(error, seq))] * len(events)

    def _end_fork(self, error: BaseException | None = None) -> None:
        """A process that the handler has forked ends where the handler does, and touches nothing."""
        if not self._is_forked:
            return
        if isinstance(error, SystemExit):
            os._exit(error.code if isinstance(error.code, int) else error.code is not None)
        if error is not None:
            traceback.print_exception(error)
        os._exit(error is not None)

    def _reason(self, error: BaseException, seq: int) -> str:
        """Of a failure. If it came of a cancellation, that ends here."""
        if self._timed_out != seq:
            return describe_failure(error)
        if not self._is_cancelled:
            return f"it ran past eventTimeout:\n{describe_failure(error)}"
        assert self._task is not None
        self._is_cancelled = False
        self._task.uncancel()
        return f"it ran past eventTimeout and was cancelled:\n{describe_failure(error)}"


def _spans(seqs: Sequence[int], outcomes: Sequence[Outcome]) -> Iterator[tuple[int, int, Outcome]]:
    """Neighbours that went the same way, as (first, last, outcome)."""
    begin = 0
    for at in range(1, len(seqs) + 1):
        if at == len(seqs) or seqs[at] != seqs[at - 1] + 1 or outcomes[at] != outcomes[begin]:
            yield seqs[begin], seqs[at - 1], outcomes[begin]
            begin = at


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _step(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that awaits nothing, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing is awaited for a sync handler")
