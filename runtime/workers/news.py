"""What one worker process says, on its way to whoever listens."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.ack_slot import AckedSpan
from headrace.runtime.wire.frames import Ack, Kind, WireRecord
from headrace.runtime.wire.progress_slot import Progress
from headrace.runtime.wire.reply import Reply, decode_reply
from headrace.runtime.workers.in_flight import InFlight, Run
from headrace.runtime.workers.joined_acks import JoinedAcks
from headrace.runtime.workers.listener import RecordListener
from headrace.runtime.workers.process import WorkerProcess
from headrace.runtime.workers.verdict import Death, Fate, judge

logger = logging.getLogger(__name__)


class News:
    """Takes out of `in_flight` what has an outcome, and passes that on."""

    def __init__(
        self,
        worker_index: int,
        in_flight: InFlight,
        lanes: Mapping[int, Lane],
        listener: RecordListener,
        on_ready: Callable[[], None],
    ) -> None:
        """`lanes`: that the process was told of, by id. `on_ready`: the handler is loaded."""
        self.is_async = False
        """The handler is."""
        self.init_failure = ""
        """Why the handler can't be loaded."""
        self.has_handled = False
        """A record has succeeded."""
        self._worker_index = worker_index
        self._in_flight = in_flight
        self._lanes = lanes
        self._listener = listener
        self._on_ready = on_ready
        self._acks = JoinedAcks(listener.on_acked)
        self._acked = AckedSpan(-1, 0, 0)  # what was seen of it last

    def on_frame(self, kind: Kind, body: bytes) -> None:
        """A frame has come."""
        if kind is Kind.ACK:
            self._acks.add(body)
        else:
            self._acks.flush()
            self._on_news(kind, body)

    def on_read(self) -> None:
        """What came in one read is one batch of news."""
        self._acks.flush()
        self._listener.on_changed()

    def take_in(self, process: WorkerProcess) -> Progress | None:
        """What it has said, acked and done by now; as WorkerProcess.read_progress."""
        acked = process.slot.acks.read()
        progress = process.read_progress()
        self._acks.flush()
        if acked is not None:  # before anything is settled: acks came first
            self._on_acked(acked)
        if progress is not None:  # else only what was reported is settled: better twice than never
            self.settle_before(progress.seq)
        return progress

    def on_death(self, process: WorkerProcess, death: Death) -> bool:
        """It is reaped. Decide on each record that it held, by its last word and the slot.

        Whether it had started one.
        """
        progress = self.take_in(process)
        process.slot.close()
        started: Sequence[Run] = []
        if progress is not None and progress.is_running:
            started = self._in_flight.take_started(progress.seq, is_batch=bool(self._in_flight.batch_size))
            self._on_died_in(started, *judge(progress.seq, started, death))
        for run in self._in_flight.take_all():
            self._listener.on_returned(run.lane, run.records)
        self._listener.on_changed()
        return bool(started)

    def _on_died_in(self, started: Sequence[Run], fate: Fate, reason: str) -> None:
        among = sum(len(run.records) for run in started)
        for lane, records in ((run.lane, run.records) for run in started):
            if fate is Fate.FAILED:
                self._listener.on_failed(lane, records, reason, among)
            elif fate is Fate.SUSPECTED:
                self._listener.on_suspected(lane, records, reason)
            else:
                logger.warning(
                    "worker %d was killed in %s offset %d, which stays uncommitted and is delivered again",
                    self._worker_index,
                    lane.key,
                    lane.first_offsets(records)[0],
                )
                self._listener.on_returned(lane, records)

    def settle_before(self, seq: int) -> None:
        """All before `seq` succeeded, except what was named."""
        for lane, records in self._in_flight.settle_before(seq):
            self.has_handled = True
            self._listener.on_handled(lane, records)

    def _on_news(self, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.PROGRESS:
                seq, handler_ns, count = wire.decode_progress(body)
                self.settle_before(seq)
                self._listener.on_measured(count, handler_ns)
            case Kind.FAILED:
                self._on_failed(*wire.decode_failed(body))
            case Kind.ACKED:
                self._on_acked(AckedSpan(*wire.decode_acked(body)))
            case Kind.REPLY:
                self._on_reply(*decode_reply(body))
            case Kind.UNACKED:
                self._listener.on_unacked(*self._take(wire.decode_seq(body)))
            case Kind.RETURNED:
                for span in wire.decode_returned(body):
                    self._listener.on_returned(*self._in_flight.take_back(*span))
            case _:
                self._on_other(kind, body)

    def _on_other(self, kind: Kind, body: bytes) -> None:
        """About no outcome."""
        match kind:
            case Kind.LOG:
                self._on_log(*wire.decode_about(body))
            case Kind.READY:
                self.is_async = bool(body[0])
                self._on_ready()
            case Kind.INIT_FAILED:
                self.init_failure = wire.decode_init_failed(body)
            case _:
                raise AssertionError(f"a worker does not send {kind.name}")

    def _on_acked(self, acked: AckedSpan) -> None:
        """A span is seen again and again, each time longer perhaps: what is new of it."""
        first = self._acked.end if acked[:2] == self._acked[:2] else acked.first
        self._acked = acked
        lane = self._lanes.get(acked.lane_id)  # None: it has left, and this was seen before
        if lane is not None and first < acked.end:
            count = acked.end - first
            self._listener.on_acked(Ack(*lane.key, acked.end - 1, is_through=False, count=count))

    def _on_reply(self, seq: int, reply: Reply) -> None:
        found = self._in_flight.find(seq)
        assert found is not None, "a worker answers only what it holds"
        self._listener.on_replied(*found, reply)

    def _on_failed(self, first: int, end: int, reason: str) -> None:
        self.settle_before(first)
        failed = list(self._in_flight.settle_before(end))
        assert failed, "a worker decides only on what it holds"
        for lane, records in failed:
            self._listener.on_failed(lane, records, reason, self._in_flight.batch_size or 1)

    def _take(self, seq: int) -> tuple[Lane, Sequence[WireRecord]]:
        """The record whose outcome has come, out of what is in flight."""
        self.settle_before(seq)
        taken = self._in_flight.take(seq)
        assert taken is not None, "a worker decides only on what it holds"
        return taken

    def _on_log(self, seq: int, text: str) -> None:
        line = json.loads(text)
        bound = {"worker": self._worker_index, **line["with"]}
        if (found := self._in_flight.find(seq)) is not None:
            lane, record = found
            bound |= {"partition": str(lane.key), "offset": record.offset}
        logging.getLogger("handler").log(line["level"], "%s", line["message"], extra={"bound": bound})
