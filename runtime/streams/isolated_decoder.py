"""Decoding of single records in a process of its own, which may die of them.

A dead letter may be made of the very record that workers have died on: the processor never decodes it itself.
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
from headrace.runtime.wire.framing import FrameKind, split_frames
from headrace.runtime.wire.outcomes import decode_init_failed, encode_init_failed
from headrace.runtime.wire.records import RunHeader, WireRecord, decode_records, encode_run
from headrace.runtime.wire.undecoded import Decode, UndecodableError, UndecodableRecord

TIMEOUT_SECONDS = 30
"""Time for one record, after which an alarm ends the process."""
_TRIES = 2  # the process may have died of something else
_REQUEST = struct.Struct("<QQ")  # bytes of the chunk that follows, records to skip in it
_LENGTH = struct.Struct("<I")
_ALONE = RunHeader(0, 0, 0, 1, 1)


class IsolatedDecoder:
    """Decodes one record at a time. Its process is started when first needed, and again after each death."""

    def __init__(self, policy: DeliveryPolicy) -> None:
        self._arguments = (policy.decoder, json.dumps(dict(policy.decoder_options)), str(TIMEOUT_SECONDS))
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()
        self._closed_count = 0

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none now."""
        return self._process.pid if self._process else None

    async def decode(self, record: WireRecord) -> WireRecord:
        """Return the record decoded; an UndecodableRecord if that fails, or ends the process each time.

        Raises OSError if the machine has no room for a process, or `close` is called meanwhile.
        """
        if not isinstance(record, ChunkRecord):
            return record
        closed_count = self._closed_count
        async with self._lock:
            try:
                return await asyncio.to_thread(self._decode, record, closed_count)
            except asyncio.CancelledError:
                self.close()  # or the thread would go on, and hold up the next record
                raise

    def close(self) -> None:
        """End the process, whatever it is doing. Idempotent; a later record starts another one."""
        self._closed_count += 1
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _decode(self, record: ChunkRecord, closed_count: int) -> WireRecord:
        """Ask the process; runs in a thread. One at a time, but for a call that `close` has just cut off."""
        for _ in range(_TRIES):
            process = self._process = self._process or self._start()
            if closed_count == self._closed_count:
                with contextlib.suppress(Exception):  # it has died, or answers what can't be understood
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
    process.stdin.write(_REQUEST.pack(len(chunk.data), record.offset - chunk.first))
    process.stdin.write(chunk.data)
    process.stdin.flush()
    length = _exactly(process.stdout, _LENGTH.size)
    answer = bytearray(length + _exactly(process.stdout, _LENGTH.unpack(length)[0]))
    ((kind, body),) = split_frames(answer)
    if kind is FrameKind.RUN:
        return decode_records(body)[0]._replace(offset=record.offset)
    return UndecodableRecord(record.offset, ValueError(decode_init_failed(body)))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


# ---- in that process


def main(decoder: str, options: str, seconds: str) -> None:
    """Decode records from standard input, answers to standard output, until the input ends."""
    module, _, name = decoder.partition(":")
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a decoder prints must not go amid the answers
    decode: Decode = partial(getattr(importlib.import_module(module), name), **json.loads(options))
    while head := requests.read(_REQUEST.size):
        size, skip = _REQUEST.unpack(head)
        data = _exactly(requests, size)
        signal.alarm(int(seconds))
        try:
            answer = encode_run(_ALONE, decode(data, skip, must_live=True).read(1))
        except UndecodableError as error:
            answer = encode_init_failed(str(error))
        signal.alarm(0)
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, BrokenPipeError):  # the processor is gone
        main(*sys.argv[1:])
    os._exit(0)
