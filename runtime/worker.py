"""A worker process: `python -m headrace.runtime.worker SOCKET_FD SLOT_FD`, started by a processor.

Two threads. The link thread reads the socket: runs, recalls, the end. The main thread runs the user's code
and nothing else, so a handler may block for as long as it likes. DESIGN.md, "Threads and processes".
"""

import asyncio
import faulthandler
import inspect
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Coroutine
from pathlib import Path
from types import CoroutineType
from typing import Any

import nuclio_sdk

from headrace.runtime import handler_results, wire
from headrace.runtime.context import create_context
from headrace.runtime.death import die_with_parent
from headrace.runtime.event import Source, StreamEvent
from headrace.runtime.handler import Handler, HandlerNotLoadedError, describe_failure, load_handler
from headrace.runtime.progress_slot import ProgressSlot
from headrace.runtime.wire import Kind
from headrace.runtime.worker_callbacks import Callbacks
from headrace.runtime.worker_inbox import Inbox, PendingRun
from headrace.runtime.worker_link import Link, die
from headrace.runtime.worker_log import redirect_output, restore_output

# The link thread must get a turn soon while a handler computes: recalls and runs wait for it.
_SWITCH_INTERVAL_SECONDS = 0.001


class Worker:
    """The main thread's part: one run after another, one record after another."""

    def __init__(self, link: Link, slot: ProgressSlot, start: dict[str, Any]) -> None:
        self._link = link
        self._slot = slot
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)  # sync handlers may ask for it
        self._arrived = asyncio.Event()
        self.inbox = Inbox(link.send, self._wake)
        self._trigger = nuclio_sdk.TriggerInfo(start["trigger_kind"], start["trigger_name"])
        self._context = create_context(start["worker_id"], self._trigger)
        self._callbacks = Callbacks(self._loop)
        self._sources: dict[int, Source] = {}
        self._handler: Handler

    def load(self, folder: Path, module_name: str, function_name: str) -> None:
        """Import the handler and run its init_context. Raises HandlerNotLoadedError."""
        self._handler, init_context = load_handler(folder, module_name, function_name)
        if init_context is None:
            return
        try:
            result = init_context(self._context)
            if inspect.isawaitable(result):
                self._loop.run_until_complete(_awaited(result))
        except BaseException as error:  # user code may raise anything
            text = f"init_context raised, in your code:\n{describe_failure(error)}"
            raise HandlerNotLoadedError(text) from None

    def add_source(self, partition_id: int, topic: str, partition: int) -> None:
        """Runs name partitions by id (link thread)."""
        self._sources[partition_id] = Source(topic, partition, self._trigger)

    def forget_source(self, partition_id: int) -> None:
        """Its assignment is over (link thread)."""
        self._sources.pop(partition_id, None)
        self.inbox.forget(partition_id)

    def run_forever(self) -> None:
        """Until the processor says stop. While idle the event loop turns, so background tasks go on."""
        while not self.inbox.is_finished:
            run = self.inbox.next()
            if run is None:
                self._loop.run_until_complete(self._arrival())
            elif self._handler.is_async:
                self._loop.run_until_complete(self._handle(run))
            else:
                _step(self._handle(run))
        self._callbacks.wait()

    def drain(self) -> None:
        """Partitions are being taken away (link thread)."""
        self._callbacks.call("drain", self._context.platform.drain_callback)

    def terminate(self) -> None:
        """The replica stops (link thread)."""
        self._callbacks.call("termination", self._context.platform.termination_callback)

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._arrived.set)

    async def _arrival(self) -> None:
        await self._arrived.wait()
        self._arrived.clear()

    async def _handle(self, run: PendingRun) -> None:
        """All records of a run. Awaits nothing for a sync handler, which needs a loop that is not running."""
        call, is_async = self._handler.call, self._handler.is_async
        context, records = self._context, run.records
        # None where the partition is revoked by now: then the run was recalled, and is empty.
        source: Any = self._sources.get(run.header.partition_id)
        attempt = run.header.attempt
        seq = run.header.first_seq
        enter = self._slot.enter
        started_ns = time.perf_counter_ns()
        while records:
            try:
                record = records.popleft()
            except IndexError:  # recalled between the test and the step
                break
            enter(seq)
            try:
                result = call(context, StreamEvent(record, source, attempt))
                if type(result) is CoroutineType:  # what nearly all async handlers give
                    result = await result if is_async else self._loop.run_until_complete(result)
                if result is not None:
                    if handler_results.is_pending(result):
                        rest = handler_results.finish(result)
                        result = await rest if is_async else self._loop.run_until_complete(rest)
                    handler_results.check(result)
            except BaseException as error:  # user code may raise anything, SystemExit too
                self.inbox.fail(run, seq, describe_failure(error))
            seq += 1
        self._slot.leave(seq)
        elapsed_ns = time.perf_counter_ns() - started_ns
        self._link.send(wire.encode_progress(seq, elapsed_ns, seq - run.header.first_seq))


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _step(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that awaits nothing, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing is awaited for a sync handler")


def _follow(link: Link, worker: Worker) -> None:
    """The link thread."""
    try:
        while True:
            for kind, body in link.receive():
                _obey(worker, kind, body)
    except BaseException:
        traceback.print_exc()
        die()  # a worker that can't hear is of no use


def _obey(worker: Worker, kind: Kind, body: bytes) -> None:
    match kind:
        case Kind.RUN:
            worker.inbox.put(body)
        case Kind.RECALL:
            worker.inbox.recall(wire.decode_partition_id(body))
        case Kind.PARTITION:
            worker.add_source(**wire.decode_json(body))
        case Kind.FORGET:
            worker.forget_source(wire.decode_partition_id(body))
        case Kind.DRAIN:
            worker.drain()
        case Kind.TERMINATE:
            worker.terminate()
        case Kind.STOP:
            worker.inbox.stop()


def main() -> None:
    """Serve one processor until it says stop or is gone."""
    die_with_parent()
    for signum in (signal.SIGINT, signal.SIGTERM):
        # Not SIG_IGN: what the handler starts would inherit that.
        signal.signal(signum, lambda *_: None)
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    faulthandler.enable(2)  # a segfault says where; sys.stderr becomes log lines
    slot = ProgressSlot(int(sys.argv[2]))
    link = Link(socket.socket(fileno=int(sys.argv[1])), slot)
    ((_, body),) = link.receive()
    start = wire.decode_json(body)
    redirect_output(link.send_log)
    os.register_at_fork(after_in_child=link.abandon)
    os.register_at_fork(after_in_child=restore_output)
    worker = Worker(link, slot, start)
    threading.Thread(target=_follow, args=(link, worker), name="headrace-link", daemon=True).start()
    try:
        worker.load(Path(start["folder"]), start["module"], start["function"])
    except HandlerNotLoadedError as error:
        link.send(wire.frame(Kind.INIT_FAILED, str(error).encode(errors="backslashreplace")))
        os._exit(1)
    link.send(wire.frame(Kind.READY))
    worker.run_forever()


if __name__ == "__main__":
    main()
