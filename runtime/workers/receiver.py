"""What one worker process says, on its way to whoever listens."""

import json
import logging
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.runtime.log_lines import HANDLER_LOG
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.framing import MAX_LINE, MAX_REASON, bounded, bounded_values
from headrace.runtime.wire.metrics import decode_metrics
from headrace.runtime.wire.produce import ProduceRequest, decode_produce
from headrace.runtime.wire.progress_slot import AckedSpan, Progress, ProgressSlot
from headrace.runtime.wire.records import Ack, FrameKind, ProtocolViolationError, WireRecord
from headrace.runtime.wire.reply import MAX_PART_BYTES, Reply, decode_part, decode_reply
from headrace.runtime.workers.crash_attribution import (
    CrashOutcome,
    KillReason,
    ProcessExit,
    attribute,
    attribute_concurrent,
)
from headrace.runtime.workers.in_flight import InFlight, Run
from headrace.runtime.workers.joined_acks import JoinedAcks
from headrace.runtime.workers.listener import RecordListener, Timed
from headrace.runtime.workers.process import WorkerProcess

logger = logging.getLogger(__name__)

_STATUSES = range(100, 600)


class FrameReceiver:
    """Takes out of `in_flight` what has an outcome, and passes that on.

    The process runs anybody's code: each number of it is checked against what it was given, so that no loop
    here is longer than that.
    """

    def __init__(
        self,
        worker_index: int,
        in_flight: InFlight,
        lanes: Mapping[int, Lane],
        listener: RecordListener,
        on_ready: Callable[[], None],
    ) -> None:
        """`lanes`: that the process was told of, by id. `on_ready`: the handler is loaded."""
        self.look: Callable[[], Progress] | None = None
        """Reads the slot of the process, where that has one."""
        self.is_async = False
        """The handler is."""
        self.init_failure = ""
        """Why the handler can't be loaded."""
        self.nonsense = ""
        """What it said that can't be: it is killed for that."""
        self.has_handled = False
        """A record has succeeded."""
        self._worker_index = worker_index
        self._in_flight = in_flight
        self._lanes = lanes
        self._listener = listener
        self._on_ready = on_ready
        self._acks = JoinedAcks(listener.on_acked)
        self._acked = AckedSpan(-1, 0, 0, -1)  # what was seen of it last
        self._reached = 0  # by its slot, when that was last asked
        self._produced = 0  # messages
        # By seq: their outcome has come before their time. Where they overlap.
        self._named: dict[int, Lane] = {}
        self._is_ready = False
        self._born_ns = time.monotonic_ns()

    def on_frame(self, kind: FrameKind, body: bytes) -> None:
        """A frame has come. Raises ProtocolViolationError, and then nothing of it was taken in."""
        if kind is not FrameKind.ACK:
            self._acks.flush()
            self._on_news(kind, _read(kind, body))
        else:
            try:
                self._acks.add(body)
            except (struct.error, ValueError) as error:
                raise ProtocolViolationError(f"an ACK that can't be read ({error})") from None

    def on_nonsense(self, why: str) -> None:
        """It is killed for that."""
        message = "worker %d says what can't be (%s): it is killed, and what it holds is delivered again"
        logger.error(message, self._worker_index, why)
        self.nonsense = f"it said what can't be ({why})"
        self._listener.on_nonsense()

    def on_read(self) -> None:
        """What came in one read is one batch of news."""
        self._acks.flush()
        self._listener.on_changed()

    def take_in(self, process: WorkerProcess) -> Progress | None:
        """What it has said, acked and done by now; as WorkerProcess.read_progress."""
        acked = process.slot.acks.read()
        progress = process.read_progress()
        self._acks.flush()
        if progress is None:  # only what was reported is settled: better twice than never
            return None
        try:
            if acked is not None:  # before anything is settled: acks came first
                self._on_acked(acked)
            self._check_before(progress.seq + progress.is_running)
        except ProtocolViolationError as error:
            process.refuse(str(error))
            return None
        if not self._in_flight.overlaps:
            self.settle_before(progress.seq)
        return progress

    def on_death(self, process: WorkerProcess, death: ProcessExit) -> bool:
        """It is reaped. Decide on each record that it held, by its last word and the slot.

        Whether it had started one.
        """
        progress = self.take_in(process)
        if self._in_flight.overlaps:
            has_started = self._on_death_beside(process.slot, death, is_heard=progress is not None)
        else:
            has_started = self._on_death_in_turn(process.slot, death, progress)
        process.slot.close()
        for run in self._in_flight.take_all():
            self._listener.on_returned(run.lane, run.records)
        self._listener.on_changed()
        return has_started

    def _on_death_in_turn(self, slot: ProgressSlot, death: ProcessExit, progress: Progress | None) -> bool:
        """Where one record, or batch, follows another. Whether one had started."""
        if progress is None and self.nonsense and (seq := self._accused(slot)) is not None:
            progress = Progress(seq, is_running=True, since_ns=0)
            death = replace(death, verdict=KillReason(seq, self.nonsense, is_certain=False))
            self._return_before((self._in_flight.batch_of(seq) or range(seq, seq + 1)).start)
        if progress is None or not progress.is_running:
            return False
        started = self._in_flight.take_started(progress.seq)
        self._on_died_in(started, *attribute(progress.seq, started, death))
        return bool(started)

    def _on_death_beside(self, slot: ProgressSlot, death: ProcessExit, *, is_heard: bool) -> bool:
        """Where several run at once. Whether one had started."""
        if not (is_heard or self.nonsense):
            return False
        seqs = [running.seq for running in self._in_flight.running(slot)]
        if not is_heard:
            seqs = seqs or [run.first_seq for run in self._in_flight.runs][:1]
            death = replace(death, verdict=KillReason(min(seqs, default=-1), self.nonsense, is_certain=False))
        taken = [(seq, it) for seq in seqs if (it := self._in_flight.take(seq)) is not None]
        started = [Run(lane, seq, records) for seq, (lane, records) in taken]
        fates = attribute_concurrent(started, death, has_waiting=slot.calls.has_waiting)
        for run, fate in zip(started, fates, strict=True):
            self._on_died_in([run], fate, death.why_killed if fate is CrashOutcome.RETURNED else death.reason)
        return bool(started)

    def _accused(self, slot: ProgressSlot) -> int | None:
        """Which record it was in when it lied; where its slot doesn't say, the first that it may have begun.

        Without one a handler that lies each time would be given its record for ever.
        """
        if running := self._in_flight.running(slot):
            return running[0].seq
        runs = self._in_flight.runs
        return runs[0].first_seq if runs and runs[0].first_seq < slot.read().seq else None

    def _return_before(self, seq: int) -> None:
        for lane, records in self._in_flight.settle_before(seq):
            self._listener.on_returned(lane, records)

    def _on_died_in(self, started: Sequence[Run], fate: CrashOutcome, reason: str) -> None:
        if started and fate is CrashOutcome.RETURNED:
            message = "worker %d was killed in %s: %s; what isn't acked of that is delivered again"
            logger.warning(message, self._worker_index, _described(started), reason)
        among = sum(len(run.records) for run in started)
        for lane, records in ((run.lane, run.records) for run in started):
            lane.on_cut_short("died")
            if fate is CrashOutcome.FAILED:
                self._listener.on_failed(lane, records, reason, among)
            elif fate is CrashOutcome.SUSPECTED:
                self._listener.on_suspected(lane, records, reason)
            else:
                self._listener.on_returned(lane, records)

    def settle_before(self, seq: int) -> None:
        """All before `seq` succeeded, except what was named."""
        for lane, records in self._in_flight.settle_before(seq):
            self.has_handled = True
            self._listener.on_handled(lane, records)

    def _on_news(self, kind: FrameKind, said: Any) -> None:  # noqa: C901, PLR0912  # a line for each kind
        match kind:
            case FrameKind.PRODUCE:  # the one that comes for each record
                self._on_produce(said)
            case FrameKind.PROGRESS:
                self._on_progress(*said)
            case FrameKind.DONE:
                self._on_done(said)
            case FrameKind.FAILED:
                self._on_failed(*said)
            case FrameKind.ACKED:
                self._on_acked(AckedSpan(*said))
            case FrameKind.NACK:
                self._listener.on_nacked(said)
            case FrameKind.REPLY:
                self._on_reply(*said)
            case FrameKind.REPLY_PART:
                self._on_reply_part(*said)
            case FrameKind.UNACKED:
                self._listener.on_unacked(*self._take(said))
            case FrameKind.RETURNED:
                for span in said:
                    self._listener.on_returned(*self._in_flight.take_back(*span))
            case FrameKind.LOG:
                self._on_log(*said)
            case FrameKind.METRICS:
                self._listener.on_metrics(self._worker_index, *said)
            case FrameKind.READY | FrameKind.INIT_FAILED:
                self._on_loaded(kind, said)

    def _on_loaded(self, kind: FrameKind, said: Any) -> None:
        if self._is_ready or self.init_failure:
            raise ProtocolViolationError("it is loaded, or not, for the second time")
        if kind is FrameKind.INIT_FAILED:
            self.init_failure = said or "it doesn't say why"
        else:
            self._is_ready, self.is_async = True, said
            self._on_ready()

    def _on_progress(self, seq: int, handler_ns: int, count: int, slowest_ns: int) -> None:
        self._check_before(seq)
        self._check_reached(seq, is_end=True)
        is_beside = self._in_flight.overlaps
        if is_beside or count > self._in_flight.next_seq or handler_ns > time.monotonic_ns() - self._born_ns:
            raise ProtocolViolationError(f"it ran {count} records in {handler_ns} ns")
        if slowest_ns > handler_ns:
            raise ProtocolViolationError(f"one of {count} records took {slowest_ns} ns of {handler_ns}")
        self.settle_before(seq)
        each_ns = (slowest_ns,) if count and slowest_ns else ()
        timed = Timed(self._in_flight.last_lane, count, handler_ns, each_ns)
        self._listener.on_measured(self._worker_index, [timed])

    def _on_done(self, ended: Sequence[tuple[int, int]]) -> None:
        """Each of them has succeeded, unless it was named before."""
        given = range(self._in_flight.next_seq if self._in_flight.overlaps else 0)
        if len(ended) > len(given) or not all(seq in given for seq, _ in ended):
            raise ProtocolViolationError(f"it has done records {ended[:5]}")
        handler_ns = sum(ns for _, ns in ended)
        if handler_ns > len(ended) * (time.monotonic_ns() - self._born_ns):
            raise ProtocolViolationError(f"it ran {len(ended)} records in {handler_ns} ns")
        times: dict[Lane | None, list[int]] = {}
        for seq, took_ns in ended:
            lane = self._named.pop(seq, None)
            if (taken := self._in_flight.take(seq)) is not None:
                lane, self.has_handled = taken[0], True
                self._listener.on_handled(*taken)
            times.setdefault(lane, []).append(took_ns)
        timed = [Timed(lane, len(each_ns), sum(each_ns), each_ns) for lane, each_ns in times.items()]
        self._listener.on_measured(self._worker_index, timed)

    def _on_acked(self, acked: AckedSpan) -> None:
        """A span is seen again and again, each time longer perhaps: what is new of it."""
        lane = self._lanes.get(acked.lane_id)
        if lane is None:  # it has left, and this was seen before
            return
        if not self._in_flight.has_given(*acked[:3]):
            raise ProtocolViolationError(f"it acks {lane.key} from {acked.first} to {acked.end}")
        first = self._acked.end if acked.number == self._acked.number else acked.first
        self._acked = acked
        if first < acked.end:
            count = acked.end - first
            ack = Ack(*lane.key, acked.end - 1, is_through=False, count=count, log=lane.log)
            self._listener.on_acked(ack)

    def _on_produce(self, said: ProduceRequest) -> None:
        """Of a lane that has left since it is sent on all the same: its handler may still run."""
        if said.number != self._produced:
            raise ProtocolViolationError(f"it produces its message {said.number} after {self._produced}")
        self._produced += 1
        lane = self._lanes.get(said.lane_id)
        if lane is not None and not self._in_flight.has_given(said.lane_id, said.offset, said.offset + 1):
            raise ProtocolViolationError(f"it produces for {lane.key} offset {said.offset}")
        self._listener.on_produced(self._worker_index, lane, said)

    def _on_reply(self, seq: int, reply: Reply) -> None:
        self._check_reached(seq)
        found = self._in_flight.find(seq)
        if found is None or reply.status not in _STATUSES:
            raise ProtocolViolationError(f"it answers record {seq} with status {reply.status}")
        self._listener.on_replied(*found, reply)

    def _on_reply_part(self, seq: int, is_last: bool, data: bytes) -> None:
        self._check_reached(seq)
        found = self._in_flight.find(seq)
        if found is None or len(data) > MAX_PART_BYTES:
            raise ProtocolViolationError(f"it answers record {seq} in a part of {len(data)} bytes")
        found[0].on_reply_part(data, is_last=is_last)

    def _on_failed(self, first: int, end: int, is_named: bool, reason: str) -> None:
        in_flight = self._in_flight
        is_held = first < end and in_flight.find(first) is not None and in_flight.find(end - 1) is not None
        batch = in_flight.batch_of(first)
        if not is_held or end > (batch.stop or first + 1):
            raise ProtocolViolationError(f"records {first} to {end} have failed")
        if in_flight.overlaps:
            self._listener.on_failed(*self._take(first), reason, 1)
            return
        self._check_reached(first)
        self.settle_before(first)
        among = 1 if is_named else len(batch) or 1
        for lane, records in in_flight.take_failed(end):
            self._listener.on_failed(lane, records, reason, among)

    def _take(self, seq: int) -> tuple[Lane, Sequence[WireRecord]]:
        """The record whose outcome has come, out of what is in flight."""
        if self._in_flight.find(seq) is None:
            raise ProtocolViolationError(f"it decides on record {seq}")
        self._check_reached(seq)
        if not self._in_flight.overlaps:
            self.settle_before(seq)
        if (taken := self._in_flight.take(seq)) is None:
            raise ProtocolViolationError(f"it decides on record {seq} before those that it follows")
        if self._in_flight.overlaps:
            self._named[seq] = taken[0]
        return taken

    def _check_before(self, seq: int) -> None:
        """It may be past all that it was given, and no further."""
        if seq > self._in_flight.next_seq:
            raise ProtocolViolationError(f"it is at record {seq}, and was given {self._in_flight.next_seq}")

    def _check_reached(self, seq: int, *, is_end: bool = False) -> None:
        """Its slot, which only its own code can write, says that it has got there.

        Or is in the last record before that end: an answer leaves before the slot does. So do the outcomes of
        a batch, which may have settled all of it by then. Not where several run, whose places others get once
        that is said.
        """
        if self.look is None or seq <= self._reached or self._in_flight.overlaps:
            return
        if is_end and not (self._in_flight.runs and self._in_flight.runs[0].first_seq < seq):
            return
        now = self.look()
        self._reached = now.seq
        is_of_batch = now.is_running and bool(self._in_flight.batch_of(now.seq))
        if seq > (self._in_flight.end_of(now) if is_end or is_of_batch else now.seq):
            raise ProtocolViolationError(f"it says what became of record {seq} before it was there")

    def _on_log(self, seq: int, line: dict[str, Any]) -> None:
        bound: dict[str, object] = {"worker": self._worker_index}
        if "of" in line:
            bound |= zip(("topic", "partition", "offset"), line["of"], strict=True)
        elif (found := self._in_flight.find(seq)) is not None:
            lane, record = found
            bound |= {**lane.key._asdict(), "offset": record.offset}
        extra = {"bound": bound, "given": line["with"]}
        extra |= {name: line[name] for name in ("source", "error") if name in line}
        message = bounded(line["message"], MAX_LINE)
        logging.getLogger(HANDLER_LOG).log(line["level"], "%s", message, extra=extra)


def _read_log(body: bytes) -> tuple[int, dict[str, Any]]:
    seq, text = wire.decode_about(body)
    line = json.loads(text)
    for name, kind in (("level", int), ("message", str), ("with", dict)):
        if not isinstance(line[name], kind):
            raise TypeError(name)
    for name in ("source", "error"):
        if name in line:
            line[name] = bounded(str(line[name]), MAX_REASON)
    if "of" in line:
        topic, partition, offset = line["of"]
        if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)):
            raise TypeError("of")
        line["of"] = (bounded(topic, MAX_REASON), partition, offset)
    if len(text) > MAX_LINE:
        line["with"] = bounded_values(line["with"])
    return seq, line


_READERS: Mapping[FrameKind, Callable[[bytes], Any]] = {
    FrameKind.READY: lambda body: bool(body[0]),
    FrameKind.INIT_FAILED: wire.decode_init_failed,
    FrameKind.PROGRESS: wire.decode_progress,
    FrameKind.DONE: wire.decode_done,
    FrameKind.FAILED: wire.decode_failed,
    FrameKind.RETURNED: wire.decode_returned,
    FrameKind.LOG: _read_log,
    FrameKind.UNACKED: wire.decode_seq,
    FrameKind.ACKED: wire.decode_acked,
    FrameKind.NACK: wire.decode_nack,
    FrameKind.PRODUCE: decode_produce,
    FrameKind.METRICS: decode_metrics,
    FrameKind.REPLY: decode_reply,
    FrameKind.REPLY_PART: decode_part,
}


def _read(kind: FrameKind, body: bytes) -> Any:
    """What the frame says, each number still unchecked. Raises ProtocolViolationError."""
    if kind not in _READERS:
        raise ProtocolViolationError(f"a worker does not send {kind.name}")
    try:
        return _READERS[kind](body)
    except Exception as error:  # whatever a decoder stumbles over
        raise ProtocolViolationError(f"a {kind.name} that can't be read ({error!r:.100})") from None


def _described(runs: Sequence[Run]) -> str:
    """`orders/0 offset 4, orders/1 offsets 7 to 9`: all of them, in one line."""
    spans = [(run.lane.key, run.lane.spans(run.records)) for run in runs]
    firsts_and_lasts = [(key, found[0][0], found[-1][1] - 1) for key, found in spans]
    return ", ".join(
        f"{key} offset {first}" if first == last else f"{key} offsets {first} to {last}"
        for key, first, last in firsts_and_lasts
    )
