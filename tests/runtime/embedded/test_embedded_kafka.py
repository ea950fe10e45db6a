"""The embedded broker: real processes, real records, and every way it can end."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from neighbour import as_neighbour, needs_neighbour

from headrace.runtime.embedded.kafka import format as formatting
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.process import BrokerJava
from headrace.runtime.embedded.kafka.security import BrokerSecurity
from headrace.runtime.embedded.maven_jars import cache_dir
from headrace.runtime.embedded.ports import free_port
from headrace.runtime.errors import BrokerError, UsageError

OWNER = """
import asyncio
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.security import BrokerSecurity

async def main():
    async with EmbeddedKafka() as kafka:
        print(kafka.pid, kafka.bootstrap, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
# A Metadata answer with one broker in it, as far as anybody looks.
ANSWERS_LIKE_A_BROKER = """
import socket, struct, sys
taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("taken", flush=True)
while True:
    link, _ = taken.accept()
    link.recv(100)
    link.sendall(struct.pack(">iii", 8, 1, 1))
"""


async def send(bootstrap: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [(await consumer.getone()).value for _ in range(count)]


async def partition_counts(bootstrap: str, **options: Any) -> dict[str, int]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **options)
    try:
        await admin.start()
        return {it["topic"]: len(it["partitions"]) for it in await admin.describe_topics()}
    finally:
        await admin.close()


async def until(what: Callable[[], bool], seconds: float = 120) -> None:
    """For what tells nobody: another process's child that ends, a start that gets as far as."""
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def command_of(pid: int | None) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.full
async def test_who_signs_in_stands_in_no_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_tool = BrokerJava.run_tool
    said: list[str] = []

    def recorded(java: BrokerJava, *arguments: str) -> str:
        said.extend(arguments)
        return run_tool(java, *arguments)

    monkeypatch.setattr(BrokerJava, "run_tool", recorded)
    signing_in = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "ada"}
    async with EmbeddedKafka(tmp_path / "data", security=BrokerSecurity({"ada": "s3cret"})) as kafka:
        said.append(command_of(kafka.pid))
        for password in ("s3cret", "other"):
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_password": password, **signing_in}
            with nullcontext() if password == "s3cret" else pytest.raises(KafkaConnectionError):
                await partition_counts(kafka.sasl_bootstrap, **options)
    assert "kafka.tools.StorageTool" in said
    assert not [word for word in said if "s3cret" in word or "SCRAM" in word or "salt" in word]
    assert "format.arguments" not in names_in(tmp_path / "data")


@pytest.mark.full
async def test_the_tool_that_formats_a_folder_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is kept beside the jars: the tool takes as long as the broker."""
    async with EmbeddedKafka():
        pass
    ran = []
    monkeypatch.setattr(formatting, "_run_format_tool", lambda *given: ran.append(given))
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({"t": 1})
    assert ran == []


async def test_a_warm_start_serves_within_seconds_and_uses_the_class_data_archive() -> None:
    async with EmbeddedKafka():
        pass  # writes the archive where there is none yet
    began = time.monotonic()
    async with EmbeddedKafka() as kafka:
        seconds = time.monotonic() - began
        command = command_of(kafka.pid)
        await kafka.create_topics({"at-once": 3})
        assert (await partition_counts(kafka.bootstrap))["at-once"] == 3

    assert seconds < 30  # 0.8 s on an idle machine; the bound is for a busy one
    assert "-XX:SharedArchiveFile=" in command
    assert list(cache_dir().glob("kafka-*/java-*.jsa"))
    assert not list(cache_dir().glob("kafka-*/*.partial"))


async def test_the_broker_dies_with_its_parent_even_by_kill_9(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OWNER,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert owner.stdout is not None
    pid, bootstrap = (await owner.stdout.readline()).decode().split()
    assert await partition_counts(bootstrap) == {}

    owner.kill()
    await owner.wait()

    await until(lambda: is_gone(int(pid)))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(bootstrap.split(":")[1])))


@pytest.mark.full
async def test_ctrl_c_in_the_terminal_does_not_reach_the_broker() -> None:
    async with EmbeddedKafka() as kafka:
        assert kafka.pid is not None
        assert os.getsid(kafka.pid) != os.getsid(0)
        assert os.getpgid(kafka.pid) != os.getpgid(0)


async def test_a_restart_keeps_port_and_records_after_a_stop_and_after_a_kill() -> None:
    async with EmbeddedKafka() as kafka:
        before, first = kafka.bootstrap, kafka.pid
        await kafka.create_topics({"kept": 2})
        await send(kafka.bootstrap, "kept", b"one")
        await kafka.restart()
        await send(kafka.bootstrap, "kept", b"two")
        await kafka.restart(kill=True)

        assert (kafka.bootstrap, kafka.pid != first) == (before, True)
        assert await read(kafka.bootstrap, "kept", 2) == [b"one", b"two"]


@pytest.mark.full_but("restart")
@needs_neighbour
@pytest.mark.parametrize("when", ["start", "restart"])
async def test_who_grabbed_the_port_and_answers_like_a_broker_is_refused(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    kafka, launch = EmbeddedKafka(), EmbeddedKafka._launch

    async def launch_too_late(self: EmbeddedKafka) -> None:
        stranger = as_neighbour(ANSWERS_LIKE_A_BROKER, self.bootstrap.rpartition(":")[2])
        try:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "taken\n"
            await launch(self)
        finally:
            stranger.kill()
            stranger.communicate()

    try:
        if when == "restart":
            await kafka.start()
        monkeypatch.setattr(EmbeddedKafka, "_launch", launch_too_late)
        with pytest.raises(UsageError, match="another process than our server listens on 127"):
            await (kafka.start() if when == "start" else kafka.restart())
    finally:
        await kafka.stop()


@pytest.mark.full
async def test_a_given_folder_keeps_its_records_for_the_next_broker(tmp_path: Path) -> None:
    async with EmbeddedKafka(tmp_path / "data") as kafka:
        await kafka.create_topics({"kept": 1})
        await send(kafka.bootstrap, "kept", b"one")
    async with EmbeddedKafka(tmp_path / "data") as kafka:
        assert await read(kafka.bootstrap, "kept", 1) == [b"one"]


@pytest.mark.full
async def test_a_temporary_folder_goes_with_its_broker_and_stop_is_idempotent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left_behind = tmp_path / "headrace-kafka-killed"
    left_behind.mkdir()
    (left_behind / "lock").touch()
    os.utime(left_behind, (0, 0))
    kafka = EmbeddedKafka()
    await kafka.stop()

    await kafka.start()
    await kafka.start()
    assert not left_behind.exists()
    assert kafka.bootstrap
    await kafka.stop()
    await kafka.stop()

    assert names_in(tmp_path) == []
    assert (kafka.bootstrap, kafka.pid) == ("", None)


@pytest.mark.full
async def test_topics_that_exist_are_fine_and_refusals_are_named() -> None:
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({"a": 2}, {"cleanup.policy": "compact"})
        await kafka.create_topics({"a": 5, "b": 1})
        assert await partition_counts(kafka.bootstrap) == {"a": 2, "b": 1}
        with pytest.raises(BrokerError, match=r"topic c: .*nonsense"):
            await kafka.create_topics({"c": 1}, {"nonsense": "1"})


@pytest.mark.full
async def test_sasl_and_tls_listeners_are_reachable_beside_the_plain_one() -> None:
    password = 'quo"te \\ and é, ok'
    async with EmbeddedKafka(security=BrokerSecurity({"alice": password}, tls=True)) as kafka:
        await kafka.create_topics({"seen": 1})
        tls = ssl.create_default_context(cadata=kafka.ca_pem)
        ways: list[tuple[str, dict[str, Any]]] = [
            (kafka.bootstrap, {}),
            (kafka.tls_bootstrap, {"security_protocol": "SSL", "ssl_context": tls}),
            *(
                (kafka.sasl_bootstrap, sasl(mechanism, password))
                for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
            ),
        ]
        for where, options in ways:
            assert await partition_counts(where, **options) == {"seen": 1}, options
        with pytest.raises(KafkaConnectionError):
            await partition_counts(kafka.sasl_bootstrap, **sasl("SCRAM-SHA-256", "wrong"))


def sasl(mechanism: str, password: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


async def test_a_busy_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"listen on 127\.0\.0\.1:{port}: Address already"):
            await EmbeddedKafka(port=port).start()


@pytest.mark.full
async def test_of_two_that_start_at_once_one_gets_the_port_and_the_other_moves() -> None:
    port = free_port()
    async with EmbeddedKafka(port=port, may_move=True) as one, EmbeddedKafka(port=port, may_move=True) as two:
        assert one.bootstrap == f"127.0.0.1:{port}"
        assert two.bootstrap not in {"", one.bootstrap}
    both = [EmbeddedKafka(port=port, may_move=True) for _ in range(2)]
    try:
        await asyncio.gather(*(each.start() for each in both))
        found = {each.bootstrap for each in both}
        assert len(found) == 2
        assert f"127.0.0.1:{port}" in found
    finally:
        await asyncio.gather(*(each.stop() for each in both))


async def test_a_folder_in_use_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.embedded.data_folder._LOCK_SECONDS", 0.1)
    async with EmbeddedKafka(tmp_path) as kafka:
        with pytest.raises(UsageError, match="in use by another server"):
            await EmbeddedKafka(tmp_path).start()
        assert await partition_counts(kafka.bootstrap) == {}


async def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot use .*file.*: Not a directory"):
        await EmbeddedKafka(tmp_path / "file" / "data").start()


async def test_a_broker_that_does_not_start_says_its_last_lines() -> None:
    with pytest.raises(BrokerError, match=r"did not start: .*heap"):
        await EmbeddedKafka(heap_mib=1).start()


async def test_a_cancelled_start_leaves_no_process_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kafka = EmbeddedKafka()
    start = asyncio.ensure_future(kafka.start())
    await until(lambda: kafka.pid is not None)
    pid = kafka.pid
    assert pid is not None
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start

    await until(lambda: is_gone(pid))
    assert names_in(tmp_path) == []


@pytest.mark.full
async def test_wait_returns_when_the_broker_ends_by_itself() -> None:
    async with EmbeddedKafka() as kafka:
        assert kafka.pid is not None
        waiting = asyncio.ensure_future(kafka.wait())
        os.kill(kafka.pid, signal.SIGKILL)
        assert isinstance(await asyncio.wait_for(waiting, 120), str)


@pytest.mark.full
def test_a_broker_is_bound_to_no_event_loop() -> None:
    kafka = EmbeddedKafka()
    asyncio.run(kafka.start())
    try:
        asyncio.run(kafka.create_topics({"a": 1}))
        assert asyncio.run(partition_counts(kafka.bootstrap)) == {"a": 1}
    finally:
        asyncio.run(kafka.stop())


def test_without_java_there_is_one_line_and_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWNER],
        env={"PATH": str(tmp_path), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UsageError: no Java 17 or newer: JAVA_HOME is not set" in done.stderr
    assert list(tmp_path.glob("headrace-kafka-*")) == []
