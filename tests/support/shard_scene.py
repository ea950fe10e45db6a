"""A stream of a test's own, and a function that reads it in the test's own process."""

import asyncio
import textwrap
import uuid
from pathlib import Path
from typing import Any

import yaml
from v3io_streams import V3ioStreams
from worker_bench import PRELUDE


class ShardScene:
    """A stream of its own, and a function that reads it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.streams = V3ioStreams(url)
        self.stream = uuid.uuid4().hex
        self.folder = folder
        self.put_count = 0

    def write(self, handler: str, **attributes: Any) -> None:
        """Quick to notice what comes. `fields` stand beside the attributes."""
        own = {**self.streams.attributes(self.stream), "pollingIntervalMs": 20}
        self.write_with_defaults(handler, **(own | attributes))

    def write_with_defaults(self, handler: str, **attributes: Any) -> None:
        fields = attributes.pop("fields", {})
        (self.folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
        own = {**self.streams.place(self.stream), "seekTo": "earliest"}
        trigger = {"kind": "v3ioStream", "attributes": own | attributes, **fields}
        spec = {"handler": "function_code:handler", "runtime": "python", "triggers": {"t": trigger}}
        document = {"metadata": {"name": "f"}, "spec": spec}
        (self.folder / "function.yaml").write_text(yaml.safe_dump(document))

    async def create(self, shards: int = 1) -> None:
        await asyncio.to_thread(self.streams.create, self.stream, shards)

    async def put(self, count: int, shard: int = 0) -> None:
        """Numbers, on from the last one."""
        values = [str(self.put_count + number).encode() for number in range(count)]
        self.put_count += count
        await asyncio.to_thread(self.streams.put, self.stream, values, shard)

    async def committed(self, shard: int = 0) -> int | None:
        return (await asyncio.to_thread(self.streams.committed, self.stream)).get(shard)

    async def until_committed(self, sequence: int) -> None:
        async with asyncio.timeout(60):
            while await self.committed() != sequence:
                await asyncio.sleep(0.05)
