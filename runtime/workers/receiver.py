"""Frames from one worker process: read, checked against what the process was given, and passed on."""

import logging
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.runtime.log_lines import HANDLER_LOG
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.framing import MAX_LINE, FrameKind, ProtocolViolationError, bounded
from headrace.runtime.wire.metrics import decode_metrics
from headrace.runtime.wire.outcomes import (
    Ack,
    decode_ack,
    decode_ack_offset,
    decode_acked,
    decode_done,
    decode_failed,
    decode_init_failed,
    decode_log,
    decode_nack,
    decode_progress,
    decode_returned,
    decode_seq,
)
from headrace.runtime.wire.produce import ProduceRequest, decode_produce
from headrace.runtime.wire.progress_slot import AckedSpan, Progress
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.reply import MAX_PART_BYTES, Reply, decode_part, decode_reply
from headrace.runtime.workers.crash_attribution import ProcessExit, settle_exit
from headrace.runtime.workers.in_flight import InFlight
from headrace.runtime.workers.listener import HandlerTime, WorkerListener
from headrace.runtime.workers.process import WorkerProcess

logger = logging.getLogger(__name__)

_STATUSES = range(100, 600)
_OFFSET_BYTES = 8


class FrameReceiver:
    """Takes records that have an outcome out of `in_flight`, and passes them on to a WorkerListener.

    The process runs anybody's code: each number that it sends is checked against the records that it was
    given, so no loop here is longer than those. One FrameReceiver serves one process, and ends with it.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # whom frames concern
        self,
        worker_index: int,
        in_flight: InFlight,
        lanes: Mapping[int, Lane],
        listener: WorkerListener,
        on_ready: Callable[[], None],
        read_slot: Callable[[], Progress] | None = None,
    ) -> None:
        """`lanes`: those that the process was told of, by id. `on_ready`: called when the handler is loaded.

        `read_slot` reads the progress slot of the process; None if there is no slot, as in headrace.testing.
        """
        self.is_async = False
        """Whether the handler is async."""
        self.init_failure = ""
        """Reason for which the handler can't be loaded."""
        self.violation = ""
        """The protocol violation for which the process is killed; empty if there was none."""
        self.has_handled = False
        """Whether a record has succeeded."""
        self._worker_index = worker_index
        self._in_flight = in_flight
        self._lanes = lanes
        self._listener = listener
        self._on_ready = on_ready
        self._read_slot = read_slot
        # ACK frames of offsets that follow each other are one Ack: the first, and how far it goes by now.
        self._open_ack: Ack | None = None
        # All of its frame but the offset.
        self._open_ack_head = b""
        self._next_acked = 0
        self._open_ack_count = 0
        # The span that the AckSlot had when it was read last: the same span is sent in a frame, too.
        self._acked = AckedSpan(-1, 0, 0, -1)
        # The seq at which the slot was when it was read last: only for later ones it is read again.
        self._reached = 0
        # Number of messages so far.
        self._produced = 0
        # Only where records overlap: the lanes, by seq, of records whose outcome was named before DONE.
        self._named: dict[int, Lane] = {}
        self._is_ready = False
        self._started_ns = time.monotonic_ns()

    def on_frame(self, kind: FrameKind, body: bytes) -> None:
        """Take in a frame. Raises ProtocolViolationError, and then nothing of it was taken in."""
        if kind is not FrameKind.ACK:
            # The handler acked before it said this, and order counts.
            if self._open_ack is not None:
                self._pass_on_ack()
            self._on_content(kind, _decode(kind, body))
        else:
            try:
                self._on_ack(body)
            except (struct.error, ValueError) as error:
                raise ProtocolViolationError(f"an ACK that can't be read ({error})") from None

    def on_protocol_violation(self, why: str) -> None:
        """Note that the process is killed for a protocol violation, `why`."""
        message = "worker %d says what can't be (%s): it is killed, and what it holds is delivered again"
        logger.error(message, self._worker_index, why)
        self.violation = f"it said what can't be ({why})"
        self._listener.on_protocol_violation()

    def on_read(self) -> None:
        """Pass on what came in one read, as a whole."""
        if self._open_ack is not None:
            self._pass_on_ack()
        self._listener.on_frames_read()

    def take_in(self, process: WorkerProcess) -> Progress | None:
        """Settle all that the process has said, acked and done by now.

        Return its progress; None if some of what it said could not be taken in.
        """
        # The slot before the socket: a worker clears a span once its ACKED frame is sent, so none is missed.
        acked = process.slot.acks.read()
        progress = process.read_progress()
        if self._open_ack is not None:
            self._pass_on_ack()
        # Some of it could not be read. What was reported is settled: a record may run twice, none is lost.
        if progress is None:
            return None
        try:
            # Before anything is settled: a handler acks a record before it returns.
            if acked is not None:
                self._on_acked(acked)
            self._check_before(progress.seq + progress.is_running)
        except ProtocolViolationError as error:
            process.refuse(str(error))
            return None
        if not self._in_flight.overlaps:
            self.settle_before(progress.seq)
        return progress

    def on_exit(self, process: WorkerProcess, process_exit: ProcessExit) -> bool:
        """Give each record that the process held an outcome, once it is reaped.

        The frames that it had sent decide first, then its slot. Return whether it had started a record.
        """
        progress = self.take_in(process)
        # Read only now: the last frames may have had the violation.
        process_exit = replace(process_exit, violation=self.violation)
        return settle_exit(process_exit, process.slot, progress, self._in_flight, self._listener)

    def settle_before(self, seq: int) -> None:
        """Report as handled all records before `seq` that have no other outcome yet."""
        for lane, records in self._in_flight.settle_before(seq):
            self.has_handled = True
            self._listener.on_handled(lane, records)

    def _on_content(self, kind: FrameKind, content: Any) -> None:  # noqa: C901, PLR0912  # one line a kind
        match kind:
            case FrameKind.PRODUCE:  # the one that comes for each record
                self._on_produce(content)
            case FrameKind.PROGRESS:
                self._on_progress(*content)
            case FrameKind.DONE:
                self._on_done(content)
            case FrameKind.FAILED:
                self._on_failed(*content)
            case FrameKind.ACKED:
                self._on_acked(AckedSpan(*content))
            case FrameKind.NACK:
                self._listener.on_ack(content)
            case FrameKind.REPLY:
                self._on_reply(*content)
            case FrameKind.REPLY_PART:
                self._on_reply_part(*content)
            case FrameKind.UNACKED:
                self._listener.on_unacked(*self._take(content))
            case FrameKind.RETURNED:
                for span in content:
                    self._listener.on_returned(*self._in_flight.take_back(*span))
            case FrameKind.LOG:
                self._on_log(*content)
            case FrameKind.METRICS:
                self._listener.on_metrics(self._worker_index, *content)
            case FrameKind.READY | FrameKind.INIT_FAILED:
                self._on_loaded(kind, content)

    def _on_loaded(self, kind: FrameKind, content: Any) -> None:
        if self._is_ready or self.init_failure:
            raise ProtocolViolationError("it is loaded, or not, for the second time")
        if kind is FrameKind.INIT_FAILED:
            self.init_failure = content or "it doesn't say why"
        else:
            self._is_ready, self.is_async = True, content
            self._on_ready()

    # ---- outcomes of records

    def _on_progress(self, seq: int, handler_ns: int, count: int, slowest_ns: int) -> None:
        self._check_before(seq)
        self._check_reached(seq, is_end=True)
        overlaps, lifetime_ns = self._in_flight.overlaps, time.monotonic_ns() - self._started_ns
        # Metrics are made of these numbers: no process has run for longer than it lives.
        if overlaps or count > self._in_flight.next_seq or handler_ns > lifetime_ns:
            raise ProtocolViolationError(f"it ran {count} records in {handler_ns} ns")
        if slowest_ns > handler_ns:
            raise ProtocolViolationError(f"one of {count} records took {slowest_ns} ns of {handler_ns}")
        self.settle_before(seq)
        each_ns = (slowest_ns,) if count and slowest_ns else ()
        timed = HandlerTime(self._in_flight.last_lane, count, handler_ns, each_ns)
        self._listener.on_measured(self._worker_index, [timed])

    def _on_done(self, ended: Sequence[tuple[int, int]]) -> None:
        """Report as handled each record that has ended, unless its outcome was named before."""
        # A record that was not sent can't have ended. Where records do not overlap, only PROGRESS may say so.
        given = range(self._in_flight.next_seq if self._in_flight.overlaps else 0)
        if len(ended) > len(given) or not all(seq in given for seq, _ in ended):
            raise ProtocolViolationError(f"it has done records {ended[:5]}")
        handler_ns = sum(ns for _, ns in ended)
        if handler_ns > len(ended) * (time.monotonic_ns() - self._started_ns):
            raise ProtocolViolationError(f"it ran {len(ended)} records in {handler_ns} ns")
        times: dict[Lane | None, list[int]] = {}
        for seq, took_ns in ended:
            # A record that has failed was taken out before; only its time is still to be counted.
            lane = self._named.pop(seq, None)
            if (taken := self._in_flight.take(seq)) is not None:
                lane, self.has_handled = taken[0], True
                self._listener.on_handled(*taken)
            times.setdefault(lane, []).append(took_ns)
        timed = [HandlerTime(lane, len(each_ns), sum(each_ns), each_ns) for lane, each_ns in times.items()]
        self._listener.on_measured(self._worker_index, timed)

    def _on_failed(self, first: int, end: int, is_named: bool, reason: str) -> None:
        in_flight = self._in_flight
        is_held = first < end and in_flight.find(first) is not None and in_flight.find(end - 1) is not None
        batch = in_flight.batch_of(first)
        # One record, or several of one batch, all of them still here.
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

    def _on_reply(self, seq: int, reply: Reply) -> None:
        self._check_reached(seq)
        found = self._in_flight.find(seq)
        if found is None or reply.status not in _STATUSES:
            raise ProtocolViolationError(f"it answers record {seq} with status {reply.status}")
        lane, record = found
        # The outcome of the record follows, and may be a failure all the same.
        lane.on_replied(record, reply)

    def _on_reply_part(self, seq: int, is_last: bool, data: bytes) -> None:
        self._check_reached(seq)
        found = self._in_flight.find(seq)
        if found is None or len(data) > MAX_PART_BYTES:
            raise ProtocolViolationError(f"it answers record {seq} in a part of {len(data)} bytes")
        found[0].on_reply_part(data, is_last=is_last)

    # ---- explicit acks

    def _on_ack(self, body: bytes) -> None:
        """Join the ack of one offset to that before it, or begin another. Raises what `decode_ack` does."""
        offset = decode_ack_offset(body)
        head = body[:-_OFFSET_BYTES]
        if self._open_ack is not None and offset == self._next_acked and head == self._open_ack_head:
            self._open_ack_count += 1
        else:
            # Decoded first: if that raises, nothing was taken in.
            ack = decode_ack(body)
            if self._open_ack is not None:
                self._pass_on_ack()
            self._open_ack, self._open_ack_head, self._open_ack_count = ack, head, 1
        self._next_acked = offset + 1

    def _pass_on_ack(self) -> None:
        ack, self._open_ack = self._open_ack, None
        if ack is not None:
            self._listener.on_ack(replace(ack, offset=self._next_acked - 1, count=self._open_ack_count))

    def _on_acked(self, acked: AckedSpan) -> None:
        """Pass on the new part of a span, which is seen again and again, each time longer perhaps."""
        lane = self._lanes.get(acked.lane_id)
        # The lane has left: what the slot still says of it was taken in before.
        if lane is None:
            return
        if not self._in_flight.has_sent(*acked[:3]):
            raise ProtocolViolationError(f"it acks {lane.key} from {acked.first} to {acked.end}")
        # A span of the same number is the same one, perhaps longer. Another one may have the same offsets, if
        # its records were delivered again.
        first = self._acked.end if acked.number == self._acked.number else acked.first
        self._acked = acked
        if first < acked.end:
            count = acked.end - first
            ack = Ack(*lane.key, acked.end - 1, is_through=False, count=count, log=lane.log)
            self._listener.on_ack(ack)

    # ---- messages and lines

    def _on_produce(self, said: ProduceRequest) -> None:
        # Numbered without a gap: the processor takes no message before the one below it.
        if said.number != self._produced:
            raise ProtocolViolationError(f"it produces its message {said.number} after {self._produced}")
        self._produced += 1
        lane = self._lanes.get(said.lane_id)
        # A message for a lane that has left is passed on all the same: its handler may still run.
        if lane is not None and not self._in_flight.has_sent(said.lane_id, said.offset, said.offset + 1):
            raise ProtocolViolationError(f"it produces for {lane.key} offset {said.offset}")
        self._listener.on_produced(self._worker_index, lane, said)

    def _on_log(self, seq: int, line: dict[str, Any]) -> None:
        # A line says which record it is of, or else is bound to the one that runs by the slot.
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

    # ---- checks

    def _take(self, seq: int) -> tuple[Lane, Sequence[WireRecord]]:
        """Remove and return the record in flight whose outcome has come."""
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
        """Raise unless `seq` is at most the one after all that the process was given."""
        if seq > self._in_flight.next_seq:
            raise ProtocolViolationError(f"it is at record {seq}, and was given {self._in_flight.next_seq}")

    def _check_reached(self, seq: int, *, is_end: bool = False) -> None:
        """Raise unless the slot is at `seq` or past it.

        With `is_end`, `seq` is an end: being in the record or batch just before is enough, as outcomes are
        sent before the slot moves on. While the slot is in a batch, all of that batch counts as reached. Not
        checked where records overlap: places are reused.
        """
        if self._read_slot is None or seq <= self._reached or self._in_flight.overlaps:
            return
        # All before `seq` is settled already: no need to look at the slot.
        if is_end and not (self._in_flight.runs and self._in_flight.runs[0].first_seq < seq):
            return
        now = self._read_slot()
        self._reached = now.seq
        is_of_batch = now.is_running and bool(self._in_flight.batch_of(now.seq))
        if seq > (self._in_flight.end_of(now) if is_end or is_of_batch else now.seq):
            raise ProtocolViolationError(f"it says what became of record {seq} before it was there")


_DECODERS: Mapping[FrameKind, Callable[[bytes], Any]] = {
    FrameKind.READY: lambda body: bool(body[0]),
    FrameKind.INIT_FAILED: decode_init_failed,
    FrameKind.PROGRESS: decode_progress,
    FrameKind.DONE: decode_done,
    FrameKind.FAILED: decode_failed,
    FrameKind.RETURNED: decode_returned,
    FrameKind.LOG: decode_log,
    FrameKind.UNACKED: decode_seq,
    FrameKind.ACKED: decode_acked,
    FrameKind.NACK: decode_nack,
    FrameKind.PRODUCE: decode_produce,
    FrameKind.METRICS: decode_metrics,
    FrameKind.REPLY: decode_reply,
    FrameKind.REPLY_PART: decode_part,
}


def _decode(kind: FrameKind, body: bytes) -> Any:
    """Return what the frame says, each number still unchecked. Raises ProtocolViolationError."""
    if kind not in _DECODERS:
        raise ProtocolViolationError(f"a worker does not send {kind.name}")
    try:
        return _DECODERS[kind](body)
    # Whatever a decoder stumbles over: the bytes may be any.
    except Exception as error:
        raise ProtocolViolationError(f"a {kind.name} that can't be read ({error!r:.100})") from None
