"""A kind of trigger in one file: each .txt file of a folder is a partition, each line of it a record."""

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from headrace.runtime.config.shared_attributes import OnFailureSettings
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.config.trigger_kinds import TriggerKind
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, decode_text
from headrace.runtime.partitions.partition import AssignedPartition, of_records
from headrace.runtime.partitions.status import is_stuck, problem, status
from headrace.runtime.settings.declare import Settings, section, setting
from headrace.runtime.settings.types import CHOICE, Text
from headrace.triggers.base import DeliveryPolicy, Dispatch, EmbeddedNeeds, Trigger, TriggerStatus


class LinesSettings(Settings):
    """`attributes` of such a trigger."""

    folder: Text = setting("folder", required="the folder to read", effect="It is waited for.")
    worker_allocation_mode: Annotated[Literal["pool", "static"], CHOICE] = setting(
        "workerAllocationMode", "pool", effect="static keeps a file at one worker."
    )
    on_failure: OnFailureSettings = section("onFailure", OnFailureSettings, effect="Lines that failed.")


class Line(NamedTuple):
    """Keeps WireRecord."""

    offset: int
    value: bytes
    key: None = None
    timestamp: int = -1
    timestamp_type: None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


LINES = TriggerKind(kind="lines", Settings=LinesSettings, trigger="lines_trigger:LinesTrigger")


class LinesTrigger(Feed, Trigger):
    """Beside FILE.txt, FILE.offset says which lines are done."""

    @staticmethod
    def delivery(settings: LinesSettings, fields: TriggerFields) -> DeliveryPolicy:
        """What stands beside `attributes`, and what stands in them."""
        mode, failure = settings.worker_allocation_mode, settings.on_failure.policy
        return replace(fields.delivery, worker_allocation_mode=mode, failure=failure)

    @staticmethod
    def embedded(settings: LinesSettings) -> EmbeddedNeeds:
        """Nothing."""
        return EmbeddedNeeds()

    def __init__(
        self, spec: TriggerSpec, dispatch: Dispatch, metrics: TriggerMetrics, client_id: str
    ) -> None:
        self._folder = Path(spec.settings.folder)
        self._dispatch = dispatch
        self._partitions: list[AssignedPartition] = []
        self._is_stopped = asyncio.Event()
        dispatch.connect(self)  # as a Feed: `commit` below, and for the rest what Feed says

    async def run(self) -> None:
        """Wait for the folder, then read what grows in its files, and commit what is done."""
        while not self._is_stopped.is_set():
            if not self._partitions and self._folder.is_dir():
                self._begin()
            for partition in self._partitions:
                lines = self._path(partition, ".txt").read_bytes().split(b"\n")[:-1]
                first = partition.ledger.position
                new = [Line(first + i, line) for i, line in enumerate(lines[first:][: partition.to_fetch])]
                if new:
                    self._dispatch.add(partition, new)
            self._dispatch.dispatch()
            self._dispatch.sync_progress()
            await self.commit(self._partitions)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._is_stopped.wait()

    def _begin(self) -> None:
        keys = [PartitionKey(path.stem, 0) for path in sorted(self._folder.glob("*.txt"))]
        self._dispatch.on_assigned(keys)
        self._partitions = [of_records(key, self._checkpoint(key), capacity=256) for key in keys]
        self._dispatch.begin(self._partitions)

    def _checkpoint(self, key: PartitionKey) -> Checkpoint:
        path = self._folder / f"{key.topic}.offset"
        offset, _, text = (path.read_text() if path.exists() else "0 ").partition(" ")
        said = decode_text(int(offset), text)
        return said.checkpoint if said else Checkpoint(int(offset))

    async def commit(self, partitions: Collection[AssignedPartition]) -> bool:
        """Whole or not at all: files are renamed."""
        for partition in partitions:
            said = partition.checkpoint
            new, path = self._path(partition, ".new"), self._path(partition, ".offset")
            new.write_text(f"{said.offset} {CheckpointText(1, said).encode(max_chars=4096).text}")
            new.replace(path)
        return True

    def _path(self, partition: AssignedPartition, suffix: str) -> Path:
        return self._folder / f"{partition.key.topic}{suffix}"

    async def stop(self, wait_seconds: float) -> None:
        """Give everything back."""
        self._is_stopped.set()
        gone, self._partitions = self._partitions, []
        await self._dispatch.revoke(gone, wait_seconds, self._dispatch.policy.late_ack_seconds)
        self._dispatch.on_revoked(None)
        await self.commit(gone)

    def problems(self) -> list[str]:
        """The folder, and lines that nobody gets past."""
        waits = [] if self._partitions else [f"waiting for files in {self._folder}"]
        return waits + [problem(partition) for partition in self._partitions if is_stuck(partition)]

    def status(self) -> TriggerStatus:
        """A row for each file."""
        of = self._dispatch.worker_of
        rows = (status(p, worker=of(p.key), limited_by="", committed=None) for p in self._partitions)
        return TriggerStatus({"folder": str(self._folder)}, tuple(rows))
