"""The v3io commands, on a real server: what a user types and what comes back."""

import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command import one_line
from command import run as command
from forked import PROGRAM
from servers import SharedV3io
from v3io_streams import GROUP, V3ioStreams

from headrace.runtime.cli.v3io.commands import v3io as commands
from headrace.runtime.v3io.group_format import SessionState, encode_state


@pytest.fixture
def stream(v3io: SharedV3io) -> str:
    """Of two shards."""
    name = f"bigdata/{uuid.uuid4().hex}"
    run(v3io, "streams", "--create", f"{name}:2")
    return name


def run(server: SharedV3io, *arguments: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(commands, arguments, input=stdin, env={"V3IO_API": server.url})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_streams_are_made_listed_and_deleted(v3io: SharedV3io) -> None:
    deep = f"bigdata/deep/{uuid.uuid4().hex}"
    found = json.loads(run(v3io, "streams", "--create", f"{deep}:3", "--retention", "5", "--json").stdout)
    assert {"stream": deep, "shards": 3, "hours": 5} in found
    assert deep not in run(v3io, "streams", "--delete", deep).stdout


def test_lines_of_stdin_come_back_in_order(v3io: SharedV3io, stream: str) -> None:
    made = run(v3io, "put", stream, "--shard", "1", stdin="one\ntwo\nthrée")
    assert made.stderr.startswith(f"put 3 records into {stream} in ")
    shown = run(v3io, "get", stream, "--count", "3")
    assert shown.stdout == "1/1\t-\tone\n1/2\t-\ttwo\n1/3\t-\tthrée\n"


def test_keyed_lines_keep_a_key_on_one_shard(v3io: SharedV3io, stream: str) -> None:
    run(v3io, "put", stream, "--keyed", stdin="k\ta\nother\tb\nk\tc\td\n")
    records = [
        json.loads(line) for line in run(v3io, "get", stream, "--count", "3", "--json").stdout.split("\n")[:3]
    ]
    of_k = [it for it in records if it["key"] == "k"]
    assert [it["value"] for it in of_k] == ["a", "c\td"]
    assert len({it["partition"] for it in of_k}) == 1


def test_a_group_can_be_looked_at_and_moved(v3io: SharedV3io, stream: str) -> None:
    run(v3io, "put", stream, "--count", "10", "--shard", "0")
    moved = json.loads(run(v3io, "seek", stream, GROUP, "--to", "4", "--json").stdout)
    assert moved["moves"] == [{"shard": 0, "before": None, "after": 4}]
    said = json.loads(run(v3io, "lag", stream, GROUP, "--json").stdout)
    first, second = said["shards"]
    assert (first["committed"], first["current"], first["lag"], said["lag"]) == (3, 10, 7, 7)
    assert (second["committed"], second["current"]) == (None, 0)
    assert "lag 7 in all" in run(v3io, "lag", stream, GROUP).stdout


@pytest.mark.parametrize(
    ("to", "after"), [("earliest", 1), ("latest", 6), ("2000-01-01", 1), ("2200-01-01", 6)]
)
def test_a_group_goes_to_ends_and_times(v3io: SharedV3io, stream: str, to: str, after: int) -> None:
    run(v3io, "put", stream, "--count", "5", "--shard", "1")
    moved = json.loads(run(v3io, "seek", stream, GROUP, "1", "--to", to, "--json").stdout)
    assert moved["moves"] == [{"shard": 1, "before": None, "after": after}]


def test_a_group_with_members_is_not_moved(v3io: SharedV3io, stream: str) -> None:
    state(v3io, stream, SessionState("alive", time.time_ns(), (0,)), SessionState("dead", 0, (1,)))
    said = one_line(command("v3io", "seek", stream, GROUP, "--to", "earliest", "--v3io", v3io.url), 5)
    assert "has members (alive): stop them first" in said


def test_members_that_are_long_gone_move_nothing(v3io: SharedV3io, stream: str) -> None:
    run(v3io, "put", stream, "--count", "5", "--shard", "1")
    state(v3io, stream, SessionState("dead", 0, (1,)))
    assert run(v3io, "seek", stream, GROUP, "--to", "earliest").exit_code == 0


def state(server: SharedV3io, stream: str, *sessions: SessionState) -> None:
    V3ioStreams(server.url).write_state(stream.partition("/")[2], encode_state(sessions))


@pytest.mark.full_but("arguments0-3-No such file or directory", "arguments1-3-No such file or directory")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["lag", "bigdata/none", "g"], 3, "No such file or directory"),
        (["get", "bigdata/none"], 3, "No such file or directory"),
        (["put", "bigdata/none", "--count", "1"], 3, "No such file or directory"),
        (["streams", "nowhere"], 3, "Container not found"),
        (["lag", "orders", "g"], 2, "is no stream; expected CONTAINER/PATH"),
        (["streams", "--create", "bigdata/orders"], 2, "is not container/path:shards"),
    ],
)
def test_a_mistake_is_one_line(v3io: SharedV3io, arguments: list[str], code: int, said: str) -> None:
    assert said in one_line(command("v3io", *arguments, "--v3io", v3io.url), code)


def test_a_group_that_nobody_knows_is_exit_code_4(v3io: SharedV3io, stream: str) -> None:
    said = one_line(command("v3io", "lag", stream, "nobody", "--v3io", v3io.url), 4)
    assert said.endswith("has no group nobody")


def test_a_server_that_is_not_there_is_one_line() -> None:
    said = one_line(command("v3io", "streams", "--v3io", "http://127.0.0.1:9"), 3)
    assert "http://127.0.0.1:9" in said


def test_up_serves_until_it_is_told_to_stop_and_keeps_what_was_put(tmp_path: Path) -> None:
    for expected in ([], ["one"]):
        process, url = up(tmp_path)
        streams = CliRunner().invoke(commands, ["streams", "--json", "--v3io", url]).stdout
        assert json.loads(streams) == [{"stream": "bigdata/s", "shards": 1, "hours": 24}]
        if expected:
            shown = CliRunner().invoke(commands, ["get", "bigdata/s", "--count", "1", "--v3io", url])
            assert shown.stdout == "0/1\t-\tone\n"
        else:
            CliRunner().invoke(commands, ["put", "bigdata/s", "--v3io", url], input="one\n")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0


def up(folder: Path) -> tuple["subprocess.Popen[str]", str]:
    arguments = [
        "v3io",
        "up",
        "--port",
        "0",
        "--data",
        str(folder / "data"),
        "--stream",
        "bigdata/s:1",
        "--json",
    ]
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]
