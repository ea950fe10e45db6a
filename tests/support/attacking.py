"""A server of Headrace in a process of its own, what is sent to it, and what that costs it."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import raw_attacks
from raw_attacks import CLOSED, HELD, REFUSED, Attack

_PATIENCE_SECONDS = 60.0
_QUIET_SECONDS = 0.2


class Attacked:
    """It listens."""

    def __init__(self, kind: str, process: "subprocess.Popen[str]") -> None:
        self.kind, self.process = kind, process
        self.where = "", 0
        self._before_mib = 0.0

    def wait(self) -> None:
        assert self.process.stdout is not None
        where = urlsplit(self.process.stdout.readline().strip())
        assert where.hostname is not None
        assert where.port is not None
        self.where = where.hostname, where.port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.where)

    async def is_well(self) -> bool:
        """Whether an honest client gets its answer."""
        reader, writer = await self.connect()
        writer.write(raw_attacks.get(raw_attacks.HEALTHY[self.kind].encode(), b"Connection: close"))
        said = await reader.read()
        writer.close()
        return said.startswith(b"HTTP/1.1 200")

    def done(self) -> list[object]:
        """What it has done beyond refusing."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: list[object] = json.loads(self.process.stdout.readline())
        return found

    def begin(self) -> None:
        """To measure."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        self._before_mib = self._status("VmRSS")

    @property
    def grown_mib(self) -> float:
        """At most, since `begin`."""
        return self._status("VmHWM") - self._before_mib

    def _status(self, name: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


@contextmanager
def attacked(kind: str, folder: Path) -> Iterator[Attacked]:
    """Until the context ends."""
    script = Path(__file__).with_name("attacked.py")
    command, pipe = [sys.executable, str(script), kind, str(folder)], subprocess.PIPE
    said = folder / "stderr"
    with (
        said.open("w") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process,
    ):
        try:
            yield Attacked(kind, process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_PATIENCE_SECONDS)
    assert not said.read_text(), said.read_text()[-3000:]


async def outcome(server: Attacked, attack: Attack) -> tuple[str, float]:
    """What is wrong with the answer, if anything, and how long it took."""
    reader, writer = await server.connect()
    try:
        pieces = list(attack.pieces)
        if attack.is_socket:
            writer.write(pieces.pop(0))
            await reader.readuntil(raw_attacks.END)
        sending = asyncio.create_task(_send(writer, pieces))
        begun = time.monotonic()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            said = await _some(reader)
            seconds = time.monotonic() - begun
            said += await _all(reader)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return _judged(attack, said), seconds
    except TimeoutError:
        return f"{attack.name}: not ended", _PATIENCE_SECONDS
    finally:
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, pieces: list[bytes]) -> None:
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


async def _some(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return await reader.read(1 << 16)
    return b""


async def _all(reader: asyncio.StreamReader) -> bytes:
    said = b""
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            said += part
    return said


def _judged(attack: Attack, said: bytes) -> str:
    first = said.partition(b"\r\n")[0]
    if attack.wanted in {CLOSED, HELD}:
        is_right = not said
    elif attack.is_socket:
        is_right = (said[-4:-2] == b"\x88\x02" and int.from_bytes(said[-2:]) == attack.wanted) or (
            b"\x88" in said and attack.wanted.to_bytes(2) in said
        )
    else:
        wanted = b"4" if attack.wanted == REFUSED else b"%d" % attack.wanted
        is_right = first[:5] == b"HTTP/" and first[8:].startswith(b" " + wanted)
    if b"aiohttp" in said or b"Python" in said or b"Traceback" in said:
        return f"{attack.name}: says what serves here: {said[:300]!r}"
    return "" if is_right else f"{attack.name}: wanted {attack.wanted}, got {said[:200]!r}"


@dataclass(frozen=True)
class Flood:
    """The same over many connections, none of which says all that it begins to say."""

    name: str
    pieces: tuple[bytes, ...]
    connections: int
    is_socket: bool = False

    @asynccontextmanager
    async def on(self, server: Attacked) -> AsyncIterator[dict[str, int]]:
        """While all have sent what they can; how many were answered what."""
        opened = [await server.connect() for _ in range(self.connections)]
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                found = await asyncio.gather(*(self._send(*streams) for streams in opened))
            yield {said: found.count(said) for said in set(found)}
        finally:
            for _, writer in opened:
                writer.transport.abort()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        pieces = list(self.pieces)
        try:
            if self.is_socket:
                writer.write(pieces.pop(0))
                await reader.readuntil(raw_attacks.END)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return "ended"
        with suppress(TimeoutError, ConnectionError):  # not answered is what most should be
            async with asyncio.timeout(_QUIET_SECONDS):
                return (await reader.read(12)).decode("latin-1") or "ended"
        return "kept"


def floods(kind: str) -> Iterator[Flood]:
    """On the server of that kind."""
    most = {"http": 4 << 20, "v3io": 10 << 20, "frontier": 1 << 20, "admin": 4 << 20}[kind]
    head, part = raw_attacks.post(kind, b"Content-Length: %d" % most), bytes(1 << 18)
    parts = (part,) * (most // len(part) - 1)
    yield Flood("bodies without an end", (head, *parts, part[:-1]), 100)
    half = b"GET / HTTP/1.1\r\nHost: x\r\nX: "
    yield Flood("heads without an end", (half + b"a" * 15_000,), 1000)
    small = b"".join(b"1\r\nx\r\n" for _ in range(10_000))
    yield Flood(
        "small chunks without an end", (raw_attacks.post(kind, b"Transfer-Encoding: chunked"), small), 50
    )
    behind = raw_attacks.get(b"/x") * 20 + head + part
    yield Flood("bodies behind requests", (behind,), 100)
    if kind == "frontier":
        begun = raw_attacks.frame(b"", length=15 << 20)
        yield Flood(
            "frames without an end", (raw_attacks.OPEN_SOCKET, begun, *(part,) * 59), 30, is_socket=True
        )
        tiny = raw_attacks.frame(b"", 2, flags=0) + raw_attacks.frame(b"", 0, flags=0) * 20_000
        yield Flood("empty fragments", (raw_attacks.OPEN_SOCKET, tiny), 20, is_socket=True)
