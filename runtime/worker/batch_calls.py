"""Calls of a handler by batch: one call for the records of several runs, and an outcome for each record."""

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import compress
from operator import itemgetter, not_
from typing import Any

from headrace.runtime.wire.framing import FrameKind
from headrace.runtime.wire.outcomes import encode_failed, encode_progress, encode_seq
from headrace.runtime.wire.undecoded import UndecodableRecord
from headrace.runtime.worker import results
from headrace.runtime.worker.api.event import LazyEvent
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.runtime.worker.api.spark import WorkerSpark
from headrace.runtime.worker.calls import RETURNED_LATE, CallCancellation, CallEnvironment
from headrace.runtime.worker.inbox import PendingRun
from headrace.runtime.worker.replies import batch_replies
from headrace.runtime.worker.results import HandlerReturnedError, RecordOutcome


class BatchCalls:
    """Calls the handler with one batch after another, in the main thread."""

    def __init__(self, environment: CallEnvironment, spark: WorkerSpark) -> None:
        self._env = environment
        self._spark = spark
        self._cancellation = CallCancellation(environment.slot, environment.loop)
        self._wants_replies = environment.lanes.own_source.wants_replies

    def next_work(self) -> Coroutine[Any, Any, None] | None:
        """Return the handling of the next batch; None where none waits."""
        batch = self._env.inbox.next_batch()
        return self._env.variables.alone(self._handle(batch)) if batch else None

    def cancel(self, seq: int, why: str) -> None:
        """Cancel the call whose first record is `seq`, if the handler is still in it (link thread)."""
        self._cancellation.cancel(seq, why)

    async def _handle(self, batch: Sequence[PendingRun]) -> None:
        started_ns = time.perf_counter_ns()
        env = self._env
        # Runs whose lane is over have no view: they were recalled, and are empty.
        viewed = [(run, view) for run in batch if (view := env.lanes.view(run.header)) is not None]
        undecodable: list[tuple[int, RecordOutcome]] = []
        new_event = env.lanes.own_source.new_event
        events_by_run = [_events_of(run, view, new_event, undecodable) for run, view in viewed]
        events = [event for run_events in events_by_run for event in run_events]
        end = batch[-1].header.first_seq + batch[-1].header.count
        seqs = [seq for seq, _ in events]
        frames: list[bytes] = []
        outcomes: list[RecordOutcome] = []
        if events:
            # Anew: records before this one may have been acked, or can't be decoded.
            env.slot.enter_run(events[0][0])
            for run_events in filter(None, events_by_run):
                run_events[-1][1].enter()  # and with it those before it
            views = (view for _, view in viewed)
            env.acks.enter_batch(
                next(view for view, found in zip(views, events_by_run, strict=True) if found)
            )
            outcomes = await self._call([event for _, event in events], seqs[0])
            env.acks.leave_batch()
            if self._wants_replies:
                frames, outcomes = batch_replies(seqs, outcomes)
            # An open range refuses acks of offsets inside it.
            if any(view.open_range for _, view in viewed):
                _leave_ranges(events, outcomes, must_ack=env.start.ack_mode == "explicitOnly")
        if undecodable:
            pairs = sorted([*zip(seqs, outcomes, strict=True), *undecodable], key=itemgetter(0))
            seqs, outcomes = [seq for seq, _ in pairs], [outcome for _, outcome in pairs]
        if env.start.exactly_once:  # with what can't be decoded: what the handler has produced is of all
            outcomes = results.all_or_nothing(outcomes)
        frames += _outcome_frames(seqs, outcomes, may_ask_no_ack=env.may_ask_no_ack)
        elapsed_ns = time.perf_counter_ns() - started_ns
        # In one piece: a kill finds all outcomes told, or none.
        env.send(b"".join((*frames, encode_progress(end, elapsed_ns, len(events)))))
        # Only now: of a dead worker the processor reads the socket first, then the slot.
        env.slot.leave(end)

    async def _call(self, events: list[LazyEvent], seq: int) -> list[RecordOutcome]:
        """Call the handler with a batch whose first record is `seq`, and return the outcome of each."""
        env, is_async = self._env, self._env.handler.is_async
        if is_async:
            self._cancellation.enter_task()
        try:
            # A copy: whatever the handler does with its list, outcomes are told of what was handed over.
            result = env.handler.call(env.context, events.copy())
            if results.is_pending(result):
                rest = results.finish(result, keeps_items=self._wants_replies)
                result = await rest if is_async else env.loop.run_until_complete(rest)
            if self._cancellation.seq == seq:
                raise HandlerReturnedError(RETURNED_LATE)  # noqa: TRY301  # one way out
            env.forks.end_fork()
            if self._wants_replies:
                result = results.join_generators(result)
            return results.batch_outcomes(result, events)
        except BaseException as error:  # user code may raise anything, SystemExit too
            env.forks.end_fork(error)
            self._spark.doubt(error)
            return [RecordOutcome(self._cancellation.reason(error, seq))] * len(events)


def _events_of(
    run: PendingRun,
    view: PartitionView,
    new_event: Callable[[Any, PartitionView, int], LazyEvent],
    undecodable: list[tuple[int, RecordOutcome]],
) -> list[tuple[int, LazyEvent]]:
    """Return the events of a run, each with its seq, without those that were acked before their turn.

    A record that can't be decoded has failed by itself, and is added to `undecodable`: no other is to blame.
    """
    records: list[tuple[int, Any]] = list(enumerate(run.records, run.header.first_seq))
    if view.has_acked_ahead:
        records = [it for it in records if not view.is_acked(it[1].offset, run.header.attempt)]
    if UndecodableRecord in map(type, run.records):
        is_bad = [isinstance(record, UndecodableRecord) for _, record in records]
        undecodable += [
            (seq, RecordOutcome(record.why, is_named=True)) for seq, record in compress(records, is_bad)
        ]
        records = list(compress(records, map(not_, is_bad)))
    return [(seq, new_event(record, view, run.header.attempt)) for seq, record in records]


def _leave_ranges(
    events: Sequence[tuple[int, LazyEvent]], outcomes: Sequence[RecordOutcome], *, must_ack: bool
) -> None:
    """Close the ranges of offsets that need no ack: only a range that still does refuses acks inside it."""
    for (_, event), outcome in zip(events, outcomes, strict=True):
        if outcome.failure is not None or not (must_ack or outcome.asks_no_ack):
            event.leave()


def _outcome_frames(
    seqs: Sequence[int], outcomes: Sequence[RecordOutcome], *, may_ask_no_ack: bool
) -> Iterator[bytes]:
    """Yield a frame for each span of records that haven't simply succeeded."""
    for first, last, outcome in _spans(seqs, outcomes):
        if outcome.failure is not None:
            yield encode_failed(first, last + 1, outcome.failure, is_named=outcome.is_named)
        elif may_ask_no_ack and outcome.asks_no_ack:
            yield from (encode_seq(FrameKind.UNACKED, seq) for seq in range(first, last + 1))


def _spans(
    seqs: Sequence[int], outcomes: Sequence[RecordOutcome]
) -> Iterator[tuple[int, int, RecordOutcome]]:
    """Yield (first, last, outcome) for each span of neighbours that went the same way."""
    if outcomes and outcomes.count(outcomes[0]) == len(seqs) == seqs[-1] - seqs[0] + 1:  # nearly always
        yield seqs[0], seqs[-1], outcomes[0]
        return
    begin = 0
    for at in range(1, len(seqs) + 1):
        if at == len(seqs) or seqs[at] != seqs[at - 1] + 1 or not _is_same(outcomes[at], outcomes[begin]):
            yield seqs[begin], seqs[at - 1], outcomes[begin]
            begin = at


def _is_same(one: RecordOutcome, other: RecordOutcome) -> bool:
    return one is other or one == other  # nearly always one for all of them
