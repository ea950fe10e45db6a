"""A stream on a v3io server of its own, functions that read it as one group, and what they leave there."""

import asyncio
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import yaml
from history import RECORDER, Entry, History, Partition, RecordId
from replica import Replica, replica, wait_until
from worker_bench import PRELUDE

from headrace.runtime.embedded.v3io.server import EmbeddedV3io
from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient, V3ioRefusedError, nothing
from headrace.runtime.v3io.group_format import SessionState
from headrace.runtime.v3io.group_offsets import read_lags
from headrace.runtime.v3io.group_state import StateItem
from headrace.runtime.v3io.records import NewRecord
from headrace.runtime.v3io.streams import create, put

T = TypeVar("T")

PLACE = StreamPath("bigdata", "orders")
TOPIC = "/orders"
GROUP = "orders_function"
QUICK_GROUP = {"sessionTimeout": "3s", "heartbeatInterval": "300ms"}
# Whoever is gone without a word is never noticed: what goes on does so by its word.
SLOW_GROUP = {"sessionTimeout": "10m", "heartbeatInterval": "300ms"}
HANDLER_SECONDS = 0.002


def steady(seconds: float = HANDLER_SECONDS) -> str:
    """A handler that takes so long, and writes its history."""
    return f"""
{RECORDER}
    def handler(context, event):
        note("START", event)
        time.sleep({seconds})
        note("END", event)
"""


class V3ioScene:
    """`server` may be killed and started again. Replicas end with the scene."""

    def __init__(self, folder: Path, server: EmbeddedV3io, stack: ExitStack) -> None:
        self.folder = folder
        self.server = server
        self.started: list[Replica] = []
        self.produced: set[RecordId] = set()
        self.url = server.url
        self._stack = stack
        self._history = History(folder)

    # ---- functions

    def function(
        self,
        replicas: int = 1,
        handler: str = "",
        *,
        workers: int = 2,
        name: str = "f",
        group: dict[str, str] = QUICK_GROUP,
        web_api: str = "",
        **fields: object,
    ) -> Path:
        """A function.yaml, and its handler, which has PRELUDE's names. All of them write one history.

        `fields` are the trigger's, beside its attributes. `web_api`: another way to the server.
        """
        code = self.folder / name
        code.mkdir()
        shared = f"FOLDER = pathlib.Path({str(self.folder)!r})\n"
        (code / "function_code.py").write_text(PRELUDE + shared + textwrap.dedent(handler or steady()))
        about = {
            "webApi": web_api or self.url,
            "containerName": PLACE.container,
            "streamPath": TOPIC,
            "consumerGroup": GROUP,
            "seekTo": "earliest",
            "pollingIntervalMs": 50,
            **group,
        }
        trigger = {"kind": "v3ioStream", "numWorkers": workers, "attributes": about, **fields}
        spec = {
            "handler": "function_code:handler",
            "runtime": "python",
            "replicas": replicas,
            "triggers": {"records": trigger},
        }
        document = {"kind": "NuclioFunction", "metadata": {"name": "f"}, "spec": spec}
        (code / "function.yaml").write_text(yaml.safe_dump(document))
        return code

    def start(self, function: Path) -> Replica:
        """One more."""
        name = f"-{len(self.started)}"
        running = self._stack.enter_context(replica(function, name=name))
        self.started.append(running)
        return running

    def kill(self, victim: Replica) -> int:
        """kill -9. When that was, in ns of the history."""
        now_ns = time.monotonic_ns()
        victim.kill()
        return now_ns

    @property
    def history(self) -> list[Entry]:
        """What handlers have written so far."""
        self._history.read_on()
        return self._history.entries

    @property
    def runs(self) -> list[Entry]:
        """One for each time that a handler began."""
        return [it for it in self.history if it.what == "START"]

    @property
    def ended(self) -> set[RecordId]:
        """Records that were handled."""
        self._history.read_on()
        return self._history.ended

    def wait_handled(self, seconds: float = 120) -> None:
        """All that was put."""
        wait_until(lambda: self.produced <= self.ended, seconds, about=self._latest)

    @property
    def _latest(self) -> Replica | None:
        return self.started[-1] if self.started else None

    # ---- the stream

    def ask(self, work: Callable[[V3ioClient], Awaitable[T]]) -> T:
        """As a client of its own."""

        async def asked() -> T:
            async with V3ioClient(V3ioAccess(self.url)) as client:
                return await work(client)

        return asyncio.run(asked())

    def create_stream(self, shard_count: int) -> None:
        """Where it isn't there yet."""
        self.ask(lambda client: create(client, PLACE, shard_count, 24))

    def widen(self, shard_count: int) -> None:
        """UpdateStream."""
        self.ask(
            lambda client: client.write("UpdateStream", PLACE.url_path, {"ShardCount": shard_count}, nothing)
        )

    def put(self, each: int, shards: int) -> None:
        """So many to each of the first shards."""
        records = [NewRecord(b"%d" % number, shard=at) for number in range(each) for at in range(shards)]
        self.note(self.ask(lambda client: put(client, PLACE, records)))

    def note(self, placed: list[tuple[int, int]]) -> None:
        """Records that are there: shards and sequence numbers."""
        self.produced |= {(TOPIC, shard, sequence) for shard, sequence in placed}

    # ---- the group

    def sessions(self) -> tuple[SessionState, ...]:
        """By their first shards; those without any come last."""
        state = self.ask(lambda client: StateItem(client, PLACE, GROUP).read())
        return tuple(sorted(state.sessions, key=lambda it: it.shards or (1 << 20,)))

    def shares(self) -> list[list[int]]:
        """Of the shards, as sessions have them."""
        return [list(it.shards) for it in self.sessions()]

    def wait_shares(self, *expected: list[int]) -> tuple[SessionState, ...]:
        """The sessions, once these are their shards."""
        wait_until(lambda: self.shares() == list(expected), 120, about=self._latest)
        return self.sessions()

    def replace_sessions(
        self, change: Callable[[tuple[SessionState, ...]], tuple[SessionState, ...]]
    ) -> None:
        """Once, whoever else writes."""

        async def replaced(client: V3ioClient) -> bool:
            item = StateItem(client, PLACE, GROUP)
            state = await item.read()
            return await item.replace(state, change(state.sessions)) is None

        wait_until(lambda: self.ask(replaced))

    def wipe_state(self) -> None:
        """As a person does."""
        path = PLACE.item_path(f"{GROUP}-state.json")
        self.ask(lambda client: client.request("DELETE", path))

    def owner(self, running: Replica) -> SessionState:
        """Its session."""
        return wait_until(lambda: self.session_of(running), about=running)

    def session_of(self, running: Replica) -> SessionState | None:
        """None while it has none."""
        member_id = running.trigger()["memberId"]
        return next((it for it in self.sessions() if it.member_id == member_id), None)

    def wait_owned(self, running: Replica, shards: Iterable[int]) -> None:
        """Until these are what it has."""
        expected = tuple(shards)
        wait_until(lambda: self.owner(running).shards == expected, about=running)

    def commits(self) -> dict[Partition, int]:
        """Offsets: one more than the sequence number of the last record that is done."""
        try:
            _, lags = self.ask(lambda client: read_lags(client, PLACE, GROUP))
        except V3ioRefusedError:
            return {}
        return {(TOPIC, it.shard): it.committed + 1 for it in lags if it.committed is not None}

    def lag(self) -> int:
        """Records that aren't committed, in all shards."""
        _, lags = self.ask(lambda client: read_lags(client, PLACE, GROUP))
        return sum(it.lag for it in lags)


@contextmanager
def v3io_scene(folder: Path, shard_count: int = 12) -> Iterator[V3ioScene]:
    """With a stream of so many shards; 0: there is none yet. Replicas must not have found a bug."""
    server = EmbeddedV3io()
    with ExitStack() as stack:
        asyncio.run(server.start())  # in this thread: the server lives no longer than it
        stack.callback(server.kill)
        scene = V3ioScene(folder, server, stack)
        if shard_count:
            scene.create_stream(shard_count)
        yield scene
        for text in (running.log for running in scene.started):
            assert "Traceback" not in text, text
            assert "a bug of Headrace" not in text, text
