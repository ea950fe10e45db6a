"""Worker number i of a trigger, across the processes that it takes: started, replaced, stopped."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Protocol

from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.partitions.assigned import AssignedPartition
from headrace.runtime.partitions.chunk import ChunkSlice
from headrace.runtime.processes import describe_exit
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.ack_slot import AckedSpan
from headrace.runtime.wire.chunk_cache import ChunkCache
from headrace.runtime.wire.frames import Ack, Buffer, Kind, WireRecord
from headrace.runtime.wire.progress_slot import Progress
from headrace.runtime.workers.in_flight import InFlight, Run
from headrace.runtime.workers.joined_acks import JoinedAcks
from headrace.runtime.workers.process import WorkerProcess

logger = logging.getLogger(__name__)

# SIGKILL is certain; a process in an uninterruptible system call may take its time.
REAP_SECONDS = 5.0
_FIRST_RESPAWN_SECONDS = 0.1
_MAX_RESPAWN_SECONDS = 5.0
# Some times what a chunk of 1 MB takes to be decoded; a partition may wait so long for its turn.
_KEPT_SECONDS = 0.03

Spawn = Callable[[int, Callable[[Kind, bytes], None]], WorkerProcess]


class WorkerState(Enum):
    """What a worker is doing. The value is what a status page says."""

    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the runtime kills a worker, where that counts against what it runs as `seq`.

    `is_certain`: against each record of a batch; else they are suspects.
    """

    seq: int
    reason: str
    is_certain: bool


class WorkerListener(Protocol):
    """What a worker tells its dispatcher, synchronously, on the processor's event loop."""

    def on_started(self, worker: "WorkerHandle") -> None:
        """It has a process, which can be sent frames."""

    def on_loaded(self, worker: "WorkerHandle") -> None:
        """It is about to be ready: the last moment to replace it for what the handler's import has done."""

    def on_measured(self, count: int, handler_ns: int) -> None:
        """It has run so many records in that time."""

    def on_handled(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """They follow each other, and succeeded."""

    def on_handled_unacked(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """It is one; it succeeded, and its response asks not to ack it."""

    def on_failed(
        self, partition: AssignedPartition, records: Sequence[WireRecord], reason: str, among: int
    ) -> None:
        """The handler failed on them, or its process died while running them, among `among` in one call."""

    def on_suspected(self, partition: AssignedPartition, records: Sequence[WireRecord], reason: str) -> None:
        """The process died by itself in a batch that held these and others."""

    def on_acked(self, ack: Ack) -> None:
        """The handler acked a record, of whichever trigger."""

    def on_returned(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """They did not start, or the runtime killed the process in one of them."""

    def on_changed(self) -> None:
        """One batch of news is over: a good moment to hand out more."""


class WorkerHandle:
    """Owns its process and knows which records are there. A death is settled before anything else is sent."""

    def __init__(self, index: int, spawn: Spawn, listener: WorkerListener) -> None:
        self.index = index
        self.state = WorkerState.STARTING
        self.restarts = 0
        self.in_flight = InFlight()
        self.can_cancel = False
        """Its handler is async: a record can be cancelled."""
        self.is_straggling = False
        """In one record for long: gets nothing more until that one is done."""
        self._spawn = spawn
        self._listener = listener
        self._process: WorkerProcess | None = None
        self._announced: dict[int, AssignedPartition] = {}  # to its process, by id
        self._kept: ChunkCache[int] = ChunkCache()
        self._displaced_at = 0.0  # when a chunk was dropped that it wasn't done with
        self._acks = JoinedAcks(listener.on_acked)
        self._acked = AckedSpan(-1, 0, 0)  # what was seen of it last
        self._is_kill_ours = False
        self._verdict: Verdict | None = None
        self._cancelled_seq: int | None = None
        self._cancelled_at = 0.0
        self._batch_size = 0
        """How many records the last batch had; 0 where they are handled one by one."""
        self._init_failure = ""
        self._is_healthy = False
        """Its process has handled a record, died in one, or was killed for a rebalance: no reason to wait."""
        self._loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that it has now."""
        return self._process.pid if self._process else None

    @property
    def spark_session_id(self) -> str:
        """Of the process that it has now; empty where the function has no Spark."""
        return self._process.spark_session_id if self._process else ""

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs."""
        return self.state is WorkerState.READY

    @property
    def _is_stopped(self) -> bool:
        return self.state is WorkerState.STOPPED

    async def start(self) -> None:
        """Returns when the handler is loaded. Raises HandlerLoadError."""
        self._keeper = asyncio.create_task(self._keep_running(), name=f"worker-{self.index}")
        await asyncio.shield(self._loaded)

    async def stop(self, wait_seconds: float) -> None:
        """Let it finish what it holds, at most `wait_seconds`, then kill it. Idempotent."""
        is_loading = self.state is WorkerState.STARTING
        self.state = WorkerState.STOPPED
        process = self._process
        if process is not None and not process.exited.done():
            process.send(wire.frame(Kind.STOP))
            await asyncio.wait([process.exited], timeout=0 if is_loading else wait_seconds)
            self.kill()
            await asyncio.wait([process.exited], timeout=REAP_SECONDS)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None

    def send(self, partition: AssignedPartition, records: Sequence[WireRecord]) -> None:
        """Hand out a run."""
        self.send_frame(*self._frames(partition, records, has_more=False))

    def send_batch(self, parts: Sequence[tuple[AssignedPartition, Sequence[WireRecord]]]) -> None:
        """Hand out records of several partitions, for one call of the handler."""
        self._batch_size = sum(len(records) for _, records in parts)
        runs = [(p, list(run)) for p, records in parts for run in _by_attempt(p, records)]
        last = len(runs) - 1
        frames = [frame for i, run in enumerate(runs) for frame in self._frames(*run, has_more=i < last)]
        self.send_frame(*frames)

    def _frames(
        self, partition: AssignedPartition, records: Sequence[WireRecord], *, has_more: bool
    ) -> list[Buffer]:
        frames: list[Buffer] = []
        if partition.id not in self._announced:
            self._announced[partition.id] = partition
            about = {"partition_id": partition.id, "topic": partition.topic, "partition": partition.partition}
            frames.append(wire.json_frame(Kind.PARTITION, about))
        partition.worker_index = self.index
        header = self.in_flight.add(partition, records, has_more)
        if not isinstance(records, ChunkSlice):
            return [*frames, wire.encode_run(header, records)]
        chunk, first = records.chunk, records.offsets.start
        is_end = records.offsets.stop == chunk.first + chunk.count
        if self._kept.get(chunk.id) is None:
            if not self._kept.has_place_for(chunk.id, len(chunk.data)):
                self._displaced_at = time.monotonic()
            self._kept.put(chunk.id, chunk.id, len(chunk.data))
            frames += [wire.encode_chunk(len(chunk.data)), chunk.data]
        if is_end:
            self._kept.drop(chunk.id)
        return [*frames, wire.encode_slice(header, chunk.id, first - chunk.first, first, is_end=is_end)]

    def suits(self, partition: AssignedPartition) -> bool:
        """Whether its next records go without having a chunk sent again that this worker isn't done with.

        That is put off for a while: a chunk that comes again is decoded again.
        """
        chunk = partition.next_chunk
        return (
            chunk is None
            or self._kept.has_place_for(chunk.id, len(chunk.data))
            or time.monotonic() - self._displaced_at > _KEPT_SECONDS
        )

    def send_frame(self, *frame: Buffer) -> None:
        """To the process that it has now, if it has one. Also several, in pieces."""
        if self._process is not None:
            self._process.send(*frame)

    def flush(self) -> None:
        """Have what was sent leave now."""
        if self._process is not None:
            self._process.flush()

    def recall(self, partition: AssignedPartition) -> None:
        """Ask for what hasn't started of it."""
        if self._process is not None:
            partition.is_recalled = True
            self._process.send(wire.encode_recall(partition.id))

    def has_waiting(self, partition: AssignedPartition, first: int, end: int) -> bool:
        """Whether a record of offsets `[first, end)` is there and has not started, as far as is known."""
        if self._process is None or not self.in_flight.runs or self._batch_size:  # a batch starts as a whole
            return False
        progress = self._process.slot.read()
        return self.in_flight.holds(partition, first, end, progress.seq + progress.is_running)

    def forget(self, partition: AssignedPartition) -> None:
        """It is revoked, and nothing of it is here."""
        if self._process is not None and partition.id in self._announced:
            del self._announced[partition.id]
            self._process.send(wire.encode_forget(partition.id))

    def signal(self, kind: Kind) -> None:
        """DRAIN or TERMINATE: have the user's callback called."""
        if self._process is not None and self.is_ready:
            self._process.send(wire.frame(kind))

    def cancel(self, seq: int) -> float:
        """Cancel the handler in record `seq`, if it is still there. Idempotent; seconds since the first."""
        if self._cancelled_seq != seq:
            self._cancelled_seq, self._cancelled_at = seq, time.monotonic()
            self.send_frame(wire.encode_seq(Kind.TIME_OUT, seq))
        return time.monotonic() - self._cancelled_at

    def kill(self, verdict: Verdict | None = None) -> None:
        """By the runtime's own will: what it runs counts as no failure, but for what the verdict names.

        The first call decides: a process may take its time to die.
        """
        if self._process is not None and self._process.is_alive and not self._is_kill_ours:
            self._is_kill_ours = True
            self._verdict = verdict
            self._process.kill()

    def replace(self, why: str) -> None:
        """Kill the process, which runs nothing. If it hasn't handled anything either, the next one waits."""
        if self._process is not None and self._process.is_alive and not self._is_kill_ours:
            self._init_failure = why
            if self._is_healthy:
                logger.warning("worker %d is replaced: %s", self.index, why)
            self.kill()

    def sync_progress(self) -> Progress | None:
        """Settle what the worker has finished but not reported; where it is now."""
        if self._process is None or not self.is_ready:
            return None
        progress = self._read(self._process)
        if progress is not None:
            self._settle_before(progress.seq)
        return progress

    def _read(self, process: WorkerProcess) -> Progress | None:
        """Take in what the worker has said, and acked, by now; as `WorkerProcess.read_progress`."""
        acked = process.slot.acks.read()
        progress = process.read_progress()
        self._acks.flush()
        if acked is not None:
            self._on_acked(acked)
        return progress

    async def _keep_running(self) -> None:
        respawn_seconds = _FIRST_RESPAWN_SECONDS
        while not self._is_stopped:
            failure = await self._live_once()
            if not self._loaded.done():
                self._loaded.set_exception(HandlerLoadError(failure))
                return
            if self._is_healthy:
                respawn_seconds = _FIRST_RESPAWN_SECONDS
            elif not self._is_stopped:
                logger.error("worker %d: %s; next try in %.1f s", self.index, failure, respawn_seconds)
                await asyncio.sleep(respawn_seconds)
                respawn_seconds = min(2 * respawn_seconds, _MAX_RESPAWN_SECONDS)

    async def _live_once(self) -> str:
        """From the start of a process to the decision on its records; why it ended."""
        self._init_failure = ""
        self._is_healthy = False
        try:
            self._process = self._spawn(self.index, self._on_frame)
        except OSError as error:
            return f"its process can't be started ({error.strerror or error})"
        self._process.on_read = self._on_read
        self._listener.on_started(self)
        code = await asyncio.shield(self._process.exited)
        self._is_kill_ours |= self._process.is_swept
        was_ready = self.is_ready
        if was_ready:
            self.state = WorkerState.STARTING  # first: nothing more may be handed to it
        self._is_healthy |= self._is_kill_ours and not self._init_failure
        self._clear_up(self._process, code, was_ready)
        self.restarts += 1
        why = "it died before it had handled a record" if was_ready else "it died while loading the handler"
        return self._init_failure or f"{why} ({describe_exit(code)})"

    def _clear_up(self, process: WorkerProcess, code: int, was_ready: bool) -> None:
        """The process is reaped. Decide on each record that it held, by its last word and the slot."""
        progress = self._read(process)  # with its acks, before anything is settled: they came first
        process.slot.close()
        self._announced.clear()
        self._kept.clear()
        started: list[Run] = []
        if progress is not None:  # else all that was not reported comes back: better twice than never
            self._settle_before(progress.seq)
            if progress.is_running:
                started = self.in_flight.take_started(progress.seq, is_batch=bool(self._batch_size))
        if started and progress is not None:
            self._is_healthy = True  # its records' own waits keep this from going round and round
            self._report_started(started, progress.seq, code)
        elif was_ready and not self._is_kill_ours:
            logger.warning("worker %d died while idle (%s); replaced", self.index, describe_exit(code))
        while self.in_flight.runs:
            run = self.in_flight.runs.popleft()
            self._listener.on_returned(run.partition, run.records)
        self.in_flight = InFlight()
        self.is_straggling = False
        self._is_kill_ours, self._verdict, self._cancelled_seq = False, None, None
        self._listener.on_changed()

    def _report_started(self, started: Sequence[Run], seq: int, code: int) -> None:
        """Whose fault was it that the process died in these?"""
        verdict = self._verdict if self._verdict and self._verdict.seq == seq else None
        count = sum(len(run.records) for run in started)
        death = f"worker {self.index} died while running it ({describe_exit(code)})"
        for run in started:
            if self._is_kill_ours and verdict is None:
                logger.warning(
                    "worker %d was killed in %s offset %d, which stays uncommitted and is delivered again",
                    self.index,
                    run.partition,
                    run.partition.firsts_of(run.records)[0],
                )
                self._listener.on_returned(run.partition, run.records)
            elif count == 1 or (verdict and verdict.is_certain):
                self._listener.on_failed(
                    run.partition, run.records, verdict.reason if verdict else death, count
                )
            else:
                self._listener.on_suspected(run.partition, run.records, verdict.reason if verdict else death)

    def _on_frame(self, kind: Kind, body: bytes) -> None:
        if kind is Kind.ACK:
            self._acks.add(body)
        else:
            self._acks.flush()
            self._on_news(kind, body)

    def _on_read(self) -> None:
        """What came in one read is one batch of news."""
        self._acks.flush()
        self._listener.on_changed()

    def _on_news(self, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.PROGRESS:
                seq, handler_ns, count = wire.decode_progress(body)
                self._settle_before(seq)
                self._listener.on_measured(count, handler_ns)
            case Kind.FAILED:
                self._on_failed(*wire.decode_failed(body))
            case Kind.ACKED:
                self._on_acked(AckedSpan(*wire.decode_acked(body)))
            case Kind.UNACKED:
                self._listener.on_handled_unacked(*self._take(wire.decode_seq(body)))
            case Kind.RETURNED:
                for span in wire.decode_returned(body):
                    self._listener.on_returned(*self.in_flight.take_back(*span))
            case Kind.LOG:
                self._on_log(*wire.decode_about(body))
            case Kind.READY:
                self._on_ready(is_async=bool(body[0]))
            case Kind.INIT_FAILED:
                self._init_failure = body.decode()
            case _:
                raise AssertionError(f"a worker does not send {kind.name}")

    def _on_acked(self, acked: AckedSpan) -> None:
        """A span is seen again and again, each time longer perhaps: what is new of it."""
        first = self._acked.end if acked[:2] == self._acked[:2] else acked.first
        self._acked = acked
        partition = self._announced.get(acked.partition_id)  # None: it has left, and this was seen before
        if partition is not None and first < acked.end:
            count = acked.end - first
            about = (partition.topic, partition.partition, acked.end - 1)
            self._listener.on_acked(Ack(*about, is_through=False, count=count))

    def _settle_before(self, seq: int) -> None:
        for partition, records in self.in_flight.settle_before(seq):
            self.is_straggling = False
            self._is_healthy = True
            self._listener.on_handled(partition, records)

    def _on_failed(self, first: int, end: int, reason: str) -> None:
        self._settle_before(first)
        failed = list(self.in_flight.settle_before(end))
        assert failed, "a worker decides only on what it holds"
        self.is_straggling = False
        for partition, records in failed:
            self._listener.on_failed(partition, records, reason, self._batch_size or 1)

    def _take(self, seq: int) -> tuple[AssignedPartition, Sequence[WireRecord]]:
        """The record whose outcome has come, out of what is in flight."""
        self._settle_before(seq)
        taken = self.in_flight.take(seq)
        assert taken is not None, "a worker decides only on what it holds"
        self.is_straggling = False
        return taken

    def _on_ready(self, *, is_async: bool) -> None:
        self.can_cancel = is_async
        self._listener.on_loaded(self)
        if self._is_kill_ours:
            return
        if self.state is WorkerState.STARTING:
            self.state = WorkerState.READY
        if not self._loaded.done():
            self._loaded.set_result(None)

    def _on_log(self, seq: int, text: str) -> None:
        line = json.loads(text)
        bound = {"worker": self.index, **line["with"]}
        if (found := self.in_flight.find(seq)) is not None:
            partition, record = found
            bound |= {"partition": str(partition), "offset": record.offset}
        logging.getLogger("handler").log(line["level"], "%s", line["message"], extra={"bound": bound})


def _by_attempt(
    partition: AssignedPartition, records: Sequence[WireRecord]
) -> Iterator[Iterator[WireRecord]]:
    """Runs of records that are at the same attempt."""
    attempt = partition.failed_records.attempt
    return (run for _, run in groupby(records, key=lambda record: attempt(partition.firsts_of([record])[0])))
