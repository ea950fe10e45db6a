"""Looks into undecoded records in a process that may die of them.

A dead letter may be made of the very record that workers have died on: a processor never decodes it itself.
"""

import asyncio
import contextlib
import importlib
import json
import os
import signal
import struct
import subprocess
import sys
from functools import partial
from typing import IO

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.partitions.chunk import ChunkRecord
from headrace.runtime.processes import PASSED_ON, picked
from headrace.runtime.wire import records as wire
from headrace.runtime.wire.records import FrameKind, RunHeader, WireRecord
from headrace.runtime.wire.undecoded import Decode, UndecodableError, UndecodableRecord

SECONDS = 30
"""For one record."""
_TRIES = 2  # it may have died of something else
_ASKED = struct.Struct("<QQ")  # bytes of the chunk that follows, records to skip
_LENGTH = struct.Struct("<I")
_ALONE = RunHeader(0, 0, 0, 1, 1)


class IsolatedDecoder:
    """Its process is started when first needed, and again after each death."""

    def __init__(self, policy: DeliveryPolicy) -> None:
        self._arguments = (policy.decoder, json.dumps(dict(policy.decoder_options)), str(SECONDS))
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()
        self._closed_count = 0

    @property
    def pid(self) -> int | None:
        """Of its process, where it has one now."""
        return self._process.pid if self._process else None

    async def open(self, record: WireRecord) -> WireRecord:
        """The same, decoded; an UndecodableRecord where that can't be, or takes that process's life.

        Raises OSError where the machine has no room for a process, or it is closed meanwhile.
        """
        if not isinstance(record, ChunkRecord):
            return record
        closed_count = self._closed_count
        async with self._turn:
            try:
                return await asyncio.to_thread(self._open, record, closed_count)
            except asyncio.CancelledError:
                self.close()  # its thread goes on until then
                raise

    def close(self) -> None:
        """End the process, whatever it is doing. Idempotent; a later record starts another one."""
        self._closed_count += 1
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _open(self, record: ChunkRecord, closed_count: int) -> WireRecord:
        """In a thread: one at a time, but for those that were closed and are about to notice it."""
        for _ in range(_TRIES):
            process = self._process = self._process or self._start()
            if closed_count == self._closed_count:
                with contextlib.suppress(Exception):  # it is gone, or says what can't be understood
                    return _ask(process, record)
            _end(process)
            if self._process is process:
                self._process = None
            if closed_count != self._closed_count:
                raise OSError("the function stops")
        return UndecodableRecord(record.offset, RuntimeError("it ends the process that looks into it"))

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, *self._arguments],
            env=picked(os.environ, PASSED_ON),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # what a terminal says to the processor isn't said to it
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was to be written is lost
            pipe.close()


def _ask(process: "subprocess.Popen[bytes]", record: ChunkRecord) -> WireRecord:
    assert process.stdin is not None
    assert process.stdout is not None
    chunk = record.chunk
    process.stdin.write(_ASKED.pack(len(chunk.data), record.offset - chunk.first))
    process.stdin.write(chunk.data)
    process.stdin.flush()
    length = _exactly(process.stdout, _LENGTH.size)
    answer = bytearray(length + _exactly(process.stdout, _LENGTH.unpack(length)[0]))
    ((kind, body),) = wire.split_frames(answer)
    if kind is FrameKind.RUN:
        return wire.decode_records(body)[0]._replace(offset=record.offset)
    return UndecodableRecord(record.offset, ValueError(wire.decode_init_failed(body)))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


# ---- in that process


def main(decoder: str, options: str, seconds: str) -> None:
    """Answer until nobody asks any more."""
    module, _, name = decoder.partition(":")
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints
    decode: Decode = partial(getattr(importlib.import_module(module), name), **json.loads(options))
    while head := asked.read(_ASKED.size):
        size, skip = _ASKED.unpack(head)
        data = _exactly(asked, size)
        signal.alarm(int(seconds))
        try:
            answer = wire.encode_run(_ALONE, decode(data, skip, must_live=True).read(1))
        except UndecodableError as error:
            answer = wire.encode_init_failed(str(error))
        signal.alarm(0)
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, BrokenPipeError):  # who has asked is gone
        main(*sys.argv[1:])
    os._exit(0)
