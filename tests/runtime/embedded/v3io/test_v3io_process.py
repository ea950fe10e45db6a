"""The process of an embedded v3io server: how it starts, who stops it, and when it can't start at all."""

import asyncio
import os
import re
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from neighbour import as_neighbour, needs_neighbour
from v3io_calls import calls

from headrace.runtime.embedded.v3io.server import EmbeddedV3io
from headrace.runtime.errors import BrokerError, UsageError

OWNER = """
import asyncio
from headrace.runtime.embedded.v3io.server import EmbeddedV3io

async def main():
    async with EmbeddedV3io() as server:
        print(server.pid, server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
ANSWERS_TO_ALL = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

taken = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("taken", flush=True)
taken.serve_forever()
"""


async def until(what: Callable[[], bool]) -> None:
    """For what tells nobody: another process's child that ends."""
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.01)


async def test_the_server_dies_with_its_owner_even_by_kill_9(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OWNER,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert owner.stdout is not None
    pid, url = (await owner.stdout.readline()).decode().split()
    async with calls(url) as client:
        await client.create("bigdata/s")

    owner.kill()
    await owner.wait()

    await until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))


async def test_it_is_started_once_and_stopped_as_often_as_one_likes() -> None:
    server = EmbeddedV3io()
    await server.stop()
    assert (server.url, server.pid) == ("", None)
    await server.start()
    url, pid = server.url, server.pid
    await server.start()
    assert (server.url, server.pid) == (url, pid)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    folder = server._folder.path
    assert folder is not None
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)  # Ctrl-C in the terminal doesn't reach it
    await server.stop()
    await server.stop()
    assert (server.url, server.pid, folder.exists()) == ("", None, False)
    server.kill()


async def test_a_restart_keeps_the_address_and_the_data() -> None:
    async with EmbeddedV3io() as server, calls(server.url) as client:
        await server.create_streams({"bigdata/a/s": 3, "/users/b/": 1})
        before = server.url, server.pid
        for kill in (False, True):
            await server.restart(kill=kill)
            await server.create_streams({"bigdata/a/s": 8})
            assert (await client.call("DescribeStream", "bigdata/a/s"))[1]["ShardCount"] == 3
        assert server.url == before[0]
        assert server.pid != before[1]


@pytest.mark.full
async def test_a_given_folder_and_port_are_kept(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with EmbeddedV3io(data_dir) as server, calls(server.url) as client:
        await client.create("bigdata/s")
        port = int(server.url.rpartition(":")[2])
    async with EmbeddedV3io(data_dir, port=port) as server, calls(server.url) as client:
        assert server.url.endswith(f":{port}")
        assert (await client.call("DescribeStream", "bigdata/s"))[0] == 200


@pytest.mark.full
async def test_a_stream_that_cannot_be_made_is_said() -> None:
    async with EmbeddedV3io() as server:
        with pytest.raises(BrokerError, match=r"cannot create the stream other/s: .*Container not found"):
            await server.create_streams({"other/s": 1})


@pytest.mark.full
async def test_its_end_is_an_event(tmp_path: Path) -> None:
    async with EmbeddedV3io(tmp_path) as server:
        ended = asyncio.ensure_future(server.wait())
        await asyncio.sleep(0)
        assert not ended.done()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert await ended == "it said nothing"


async def test_the_key_stands_in_no_command_line(tmp_path: Path) -> None:
    async with EmbeddedV3io(tmp_path, access_key="s3cret") as server:
        assert "s3cret" not in Path(f"/proc/{server.pid}/cmdline").read_text()
    assert not [path for path in tmp_path.iterdir() if b"s3cret" in path.read_bytes()]


async def test_a_key_of_clients_is_none_of_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("V3IO_ACCESS_KEY", "s3cret")
    async with EmbeddedV3io() as server, calls(server.url) as client:
        assert (await client.call("DescribeStream", "bigdata/s"))[0] == 404


async def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EmbeddedV3io(tmp_path / "data", port=port)
        with pytest.raises(
            UsageError, match=rf"can.t listen on 127\.0\.0\.1:{port} .Address already"
        ) as raised:
            await server.start()
    assert "\n" not in str(raised.value)
    assert (server.url, server.pid) == ("", None)
    async with EmbeddedV3io(tmp_path / "data", port=port):
        pass


@needs_neighbour
async def test_a_stranger_on_the_port_gets_no_key() -> None:
    async with EmbeddedV3io() as free:
        port = int(free.url.rpartition(":")[2])
    stranger = as_neighbour(ANSWERS_TO_ALL, port)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "taken\n"
        with pytest.raises(UsageError, match="another process than our server listens on 127"):
            await EmbeddedV3io(port=port).start()
    finally:
        stranger.kill()
        stranger.communicate()


async def test_a_folder_that_is_in_use_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.embedded.data_folder._LOCK_SECONDS", 0.1)
    async with EmbeddedV3io(tmp_path):
        with pytest.raises(UsageError, match="is in use by another server"):
            await EmbeddedV3io(tmp_path).start()


async def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot use .*file: File exists; make room or choose another data"):
        await EmbeddedV3io(tmp_path / "file").start()


@pytest.mark.full_but("content0")
@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"x" * 5000])
async def test_a_file_that_is_no_database_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "v3io.sqlite3").write_bytes(content)
    with pytest.raises(
        UsageError, match=r"v3io\.sqlite3 can't be used: .*choose another data folder$"
    ) as said:
        await EmbeddedV3io(tmp_path).start()
    assert "\n" not in str(said.value)


async def test_the_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "v3io.sqlite3")) as database, database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="it has version 99, and this Headrace knows 1"):
        await EmbeddedV3io(tmp_path).start()


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    server = EmbeddedV3io(tmp_path)
    starting = asyncio.ensure_future(server.start())
    await until(lambda: server.pid is not None)
    pid = server.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not Path(f"/proc/{pid}").exists()
    async with EmbeddedV3io(tmp_path):
        pass
