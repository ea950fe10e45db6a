"""The kinds that the contract suite runs on: how each is written, fed, and asked what it has committed."""

import asyncio
import contextlib
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import pytest
import yaml
from broker import Broker
from kafka_records import group_offsets, produce
from lines_trigger import LinesTrigger
from replica import QUICK_GROUP
from root import ROOT
from v3io_streams import V3ioStreams
from worker_bench import PRELUDE

from headrace.runtime.streams.committer import Committer
from headrace.triggers.base import Trigger

ENTRY_POINT = "[headrace.triggers]\nlines = lines_trigger:LINES\n"


class Source(Protocol):
    """Where events come from, whatever the kind."""

    @property
    def name(self) -> str:
        """Of the kind."""

    def attributes(self) -> dict[str, Any]: ...
    def appear(self) -> None:
        """The source comes to be. Not in an event loop, as it may ask a broker."""

    async def have_events(self, trigger: Trigger, count: int) -> None:
        """At least so many more come, one after another."""


class Kind(Source, Protocol):
    """A stream with one partition."""

    @property
    def first(self) -> int:
        """Offset of the first record of all."""

    @property
    def commit_method(self) -> tuple[type, str]:
        """What every commit goes through."""

    def send(self, count: int) -> None:
        """So many records more. As what follows, not in an event loop."""

    def committed(self) -> int:
        """How many records are done."""


class Lines:
    """Files in a folder."""

    name, first = "lines", 0
    commit_method: tuple[type, str] = (LinesTrigger, "commit")

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "lines"

    def attributes(self) -> dict[str, Any]:
        return {"folder": str(self._folder)}

    def appear(self) -> None:
        new = self._folder.with_suffix(".new")
        new.mkdir()
        (new / "t.txt").touch()
        new.rename(self._folder)

    def send(self, count: int) -> None:
        with (self._folder / "t.txt").open("a") as file:
            file.writelines(f"line {number}\n" for number in range(count))

    async def have_events(self, trigger: Trigger, count: int) -> None:
        await asyncio.to_thread(self.send, count)

    def committed(self) -> int:
        path = self._folder / "t.offset"
        return int(path.read_text().split(" ")[0]) if path.exists() else 0


class Kafka:
    """A topic of one partition."""

    name, first = "kafka-cluster", 0
    commit_method: tuple[type, str] = (Committer, "_send")

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = f"contract-{topic}"

    def attributes(self) -> dict[str, Any]:
        group = {"consumerGroup": self._topic, **QUICK_GROUP}
        return {"topics": [self._topic], "brokers": [self._broker.bootstrap], **group}

    def appear(self) -> None:
        self._broker.create(self._topic, 1)

    def send(self, count: int) -> None:
        produce(self._broker, self._topic, count, partitions=1)

    async def have_events(self, trigger: Trigger, count: int) -> None:
        await asyncio.to_thread(self.send, count)

    def committed(self) -> int:
        return group_offsets(self._broker, self._topic).get((self._topic, 0), 0)


class V3io:
    """A stream of one shard."""

    name, first = "v3ioStream", 1
    commit_method: tuple[type, str] = (Committer, "_send")

    def __init__(self, url: str, name: str) -> None:
        self._streams = V3ioStreams(url)
        self._stream = f"contract-{name}"

    def attributes(self) -> dict[str, Any]:
        return {**self._streams.attributes(self._stream), "seekTo": "earliest", "pollingIntervalMs": 20}

    def appear(self) -> None:
        self._streams.create(self._stream, 1)

    def send(self, count: int) -> None:
        self._streams.put(self._stream, [b"record"] * count)

    async def have_events(self, trigger: Trigger, count: int) -> None:
        await asyncio.to_thread(self.send, count)

    def committed(self) -> int:
        return self._streams.committed(self._stream).get(0, 0)


class Http:
    """A port."""

    name = "http"

    def attributes(self) -> dict[str, Any]:
        return {"port": 0}

    def appear(self) -> None:
        """It is the trigger's own."""

    async def have_events(self, trigger: Trigger, count: int) -> None:
        """Whatever becomes of them."""
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                with contextlib.suppress(aiohttp.ClientError):
                    await (await session.get(trigger.status().about["url"])).read()


class Cron:
    """Time."""

    name = "cron"

    def attributes(self) -> dict[str, Any]:
        return {"interval": "50ms"}

    def appear(self) -> None:
        """It is there."""

    async def have_events(self, trigger: Trigger, count: int) -> None:
        """They come."""


def write_function(folder: Path, kind: Any, handler: str, **fields: object) -> Path:
    """A function.yaml with one trigger of this kind, and its handler, which has PRELUDE's names."""
    (folder / "function_code.py").write_text(PRELUDE + textwrap.dedent(handler))
    attributes = kind.attributes() | fields.pop("attributes", {})
    trigger = {"kind": kind.name, "numWorkers": 1, "attributes": attributes, **fields}
    spec = {"handler": "function_code:handler", "runtime": "python", "triggers": {"t": trigger}}
    (folder / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "f"}, "spec": spec}))
    return folder


@contextmanager
def third_party(folder: Path) -> Iterator[str]:
    """What installs the kind of lines_trigger.py, its entry point and its module; as a PYTHONPATH."""
    info = folder / "site" / "lines_trigger-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lines-trigger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINT)
    paths = [str(info.parent), str(ROOT / "tests/contract")]
    with pytest.MonkeyPatch.context() as patched:
        for path in paths:
            patched.syspath_prepend(path)
        yield ":".join(paths)
