"""One worker process, and what is heard of it: without a dispatcher, so nothing is handed out by itself."""

import os
import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from worker_bench import PRELUDE

from headrace.runtime.metrics.custom_metric import CustomMetric, CustomSample
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.trial_lane import TrialLane, TrialRecord
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.outcomes import Ack, Nack
from headrace.runtime.wire.produce import ProduceRequest
from headrace.runtime.wire.records import WireRecord
from headrace.runtime.wire.reply import Reply
from headrace.runtime.wire.start import WorkerStart
from headrace.runtime.workers.handle import WorkerHandle
from headrace.runtime.workers.listener import HandlerTime
from headrace.runtime.workers.process import WorkerProcess


class Heard:
    """A WorkerListener that keeps what it is told, as (what, partition, offsets, more)."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.replies: dict[tuple[int, int], Reply] = {}
        self.violations = 0

    def on_started(self, worker_index: int) -> None:
        """Of no interest."""

    on_died = on_loaded = on_started

    def on_metrics(
        self, worker_index: int, metric: CustomMetric, samples: Sequence[CustomSample], dropped: int
    ) -> None:
        """Of no interest."""

    def on_protocol_violation(self) -> None:
        self.violations += 1

    def on_frames_read(self) -> None:
        """Of no interest."""

    def on_measured(self, worker_index: int, timed: Sequence[HandlerTime]) -> None:
        """Of no interest."""

    def on_ack(self, said: Ack | Nack) -> None:
        self.told.append(("acked" if isinstance(said, Ack) else "nacked", said.partition, [said.offset]))

    def on_produced(self, worker_index: int, lane: Lane | None, said: ProduceRequest) -> None:
        self.told.append(("produced", None if lane is None else lane.key.partition, [said.offset]))

    def on_handled(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        self._tell("handled", lane, records)
        lane.on_settled(records)

    def on_unacked(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        self._tell("unacked", lane, records)
        lane.on_unacked(records)

    def on_failed(self, lane: Lane, records: Sequence[WireRecord], reason: str, among: int) -> None:
        self._tell("failed", lane, records, reason)
        lane.on_failed(records, reason, among)

    def on_suspected(self, lane: Lane, records: Sequence[WireRecord], reason: str) -> None:
        self._tell("suspected", lane, records, reason)
        lane.on_suspected(records)

    def on_returned(self, lane: Lane, records: Sequence[WireRecord]) -> None:
        self._tell("returned", lane, records)
        lane.on_returned(records)

    def _tell(self, what: str, lane: Lane, records: Sequence[WireRecord], *more: str) -> None:
        self.told.append((what, lane.key.partition, [record.offset for record in records], *more))


class HeardLane(TrialLane):
    """A lane of partition `number`, whose replies are heard beside what becomes of its records."""

    def __init__(self, heard: Heard, *values: bytes | None, number: int = 0) -> None:
        super().__init__(PartitionKey("t", number), [TrialRecord(n, value) for n, value in enumerate(values)])
        self._heard = heard

    def on_replied(self, record: WireRecord, reply: Reply) -> None:
        self._heard.told.append(("replied", self.key.partition, [record.offset]))
        self._heard.replies[self.key.partition, record.offset] = reply


@asynccontextmanager
async def lone_worker(folder: Path, handler: str, **start: Any) -> AsyncIterator[tuple[WorkerHandle, Heard]]:
    """A worker that runs `handler`, source text as for `bench`; `start` goes to its WorkerStart."""
    (folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
    lease, heard = Lease.create(1), Heard()

    def spawn(index: int) -> WorkerProcess:
        about = WorkerStart(str(folder), "function_code", "handler", index, "test", "t", **start)
        return WorkerProcess(about, os.environ, lease)

    worker = WorkerHandle(0, spawn, heard)
    try:
        await worker.start()
        yield worker, heard
    finally:
        await worker.stop(0)


def lines(folder: Path, name: str = "log") -> list[str]:
    """What the handler has written with `write(...)`."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []
