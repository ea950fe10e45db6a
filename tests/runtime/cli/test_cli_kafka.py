"""The kafka commands, on a real broker: what a user types and what comes back."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Sequence

import pytest
from broker import Broker
from click.testing import CliRunner, Result
from refusal import refused

from headrace.runtime.cli.kafka.commands import kafka
from headrace.runtime.errors import BrokerError, UsageError

PROGRAM = (sys.executable, "-c", "from headrace.runtime.cli.kafka.commands import kafka; kafka()")


def run(broker: Broker, *arguments: str, stdin: str = "") -> Result:
    environment = {"HEADRACE_BROKERS": broker.bootstrap}
    return CliRunner().invoke(kafka, arguments, input=stdin, env=environment)


def consumed(broker: Broker, topic: str, count: int) -> list[dict[str, object]]:
    result = run(broker, "consume", "--topic", topic, "--count", str(count), "--json")
    assert result.exit_code == 0, result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_lines_of_stdin_come_back_in_order(broker: Broker, topic: str) -> None:
    made = run(broker, "produce", "--topic", topic, "--partition", "3", stdin="one\ntwo\nthrée")
    assert (made.exit_code, made.stderr.split(" in ")[0]) == (0, f"produced 3 records to {topic}")

    shown = run(broker, "consume", "--topic", topic, "--count", "3")
    assert shown.stdout == "3/0\t-\tone\n3/1\t-\ttwo\n3/2\t-\tthrée\n"


def test_keyed_lines_keep_a_key_on_one_partition(broker: Broker, topic: str) -> None:
    run(broker, "produce", "--topic", topic, "--keyed", stdin="k\ta\nother\tb\nk\tc\td\n")

    records = [it for it in consumed(broker, topic, 3) if it["key"] == "k"]

    assert [it["value"] for it in records] == ["a", "c\td"]
    assert len({it["partition"] for it in records}) == 1


def test_a_keyed_line_without_a_tab_is_named(broker: Broker, topic: str) -> None:
    result = run(broker, "produce", "--topic", topic, "--keyed", stdin="k\ta\nno tab\n")
    assert refused(result, UsageError).startswith("line 2 of stdin has no tab")


async def test_a_typed_line_is_sent_at_once_and_ctrl_c_ends_the_typing(broker: Broker, topic: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "produce",
        "--brokers",
        broker.bootstrap,
        "--topic",
        topic,
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"typed\n")
    consumer = await start("consume", "--brokers", broker.bootstrap, "--topic", topic, "--count", "1")
    seen = (await consumer.communicate())[0]
    process.send_signal(signal.SIGINT)

    said = (await process.communicate())[1].decode()

    assert seen.endswith(b"\t-\ttyped\n")
    assert (process.returncode, said.strip()) == (1, "Aborted!")


def test_made_up_records_have_their_count_size_and_rate(broker: Broker, topic: str) -> None:
    made = run(broker, "produce", "--topic", topic, "--count", "40", "--size", "7", "--rate", "100", "--json")
    report = json.loads(made.stdout)
    assert (report["topic"], report["records"]) == (topic, 40)
    assert report["seconds"] >= 0.3

    values = sorted(str(it["value"]) for it in consumed(broker, topic, 40))
    assert values == [f"{number:07}" for number in range(40)]


@pytest.mark.full
def test_a_consumer_from_latest_sees_only_what_comes_later(broker: Broker, topic: str) -> None:
    run(broker, "produce", "--topic", topic, stdin="before\n")
    asyncio.run(late_consumer(broker, topic))


async def late_consumer(broker: Broker, topic: str) -> None:
    """Sends until the consumer prints: when it is ready is not to be seen from outside."""
    consumer = await start("consume", "--brokers", broker.bootstrap, "--topic", topic, "--from", "latest")
    assert consumer.stdout is not None
    line = asyncio.ensure_future(consumer.stdout.readline())
    async with asyncio.timeout(120):
        while not line.done():
            arguments = ("produce", "--brokers", broker.bootstrap, "--topic", topic, "--count", "1")
            await (await start(*arguments)).communicate()
    assert line.result().endswith(b"\t-\t" + b"0" * 100 + b"\n")
    consumer.send_signal(signal.SIGINT)
    await consumer.communicate()
    assert consumer.returncode == 0


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


def listed(result: Result) -> dict[str, dict[str, object]]:
    return {it["topic"]: it for it in json.loads(result.stdout)}


def test_topics_are_created_listed_with_end_offsets_and_deleted(broker: Broker, topic: str) -> None:
    run(broker, "produce", "--topic", topic, "--partition", "1", stdin="a\nb\n")
    fresh = f"{topic}-fresh"

    topics = listed(run(broker, "topics", "--create", f"{fresh}:3", "--json"))
    assert topics[topic]["end_offsets"] == [0, 2, 0, 0, 0, 0, 0, 0]
    assert topics[fresh] == {"topic": fresh, "partitions": 3, "end_offsets": [0, 0, 0]}

    assert fresh in run(broker, "topics").stdout
    assert fresh not in listed(run(broker, "topics", "--delete", fresh, "--json"))


@pytest.mark.full
def test_a_broker_without_topics_has_an_empty_list(narrow_broker: Broker) -> None:
    listed = run(narrow_broker, "topics", "--json")
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "[]\n", "")
    assert run(narrow_broker, "topics").exit_code == 0


def test_a_topic_that_does_not_exist_is_named_and_not_made(broker: Broker) -> None:
    for arguments in (("produce", "--count", "1"), ("consume", "--count", "1")):
        said = refused(run(broker, *arguments, "--topic", "nope"), BrokerError)
        assert "there is no topic nope" in said
    assert "topic nope" in refused(run(broker, "topics", "--delete", "nope"), BrokerError)
    assert "nope" not in listed(run(broker, "topics", "--json"))


def test_a_partition_that_does_not_exist_is_named(broker: Broker, topic: str) -> None:
    result = run(broker, "produce", "--topic", topic, "--partition", "8", "--count", "1")
    assert refused(result, UsageError) == f"topic {topic} has partitions 0 to 7: not 8"


@pytest.mark.parametrize(
    "arguments",
    [("topics",), ("produce", "--topic", "t", "--count", "1"), ("consume", "--topic", "t")],
)
def test_a_broker_that_does_not_answer_is_named_at_once(arguments: Sequence[str]) -> None:
    with socket.socket() as silent:  # bound, not listening: refuses
        silent.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        said = refused(CliRunner().invoke(kafka, [*arguments, "--brokers", where]), BrokerError)
    assert f"no Kafka broker answers at {where}" in said


def test_a_port_that_accepts_and_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.kafka.client._CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        said = refused(CliRunner().invoke(kafka, ["topics", "--brokers", where]), BrokerError)
    assert where in said


def test_a_topic_option_without_partitions_is_a_usage_error() -> None:
    result = CliRunner().invoke(kafka, ["up", "--topic", "orders"])
    assert result.exit_code == 2
    assert "'orders' is not name:partitions, as in orders:8" in result.stderr


@pytest.mark.full_but("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_up_serves_until_a_signal_and_exits_0(number: signal.Signals) -> None:
    process = await start("up", "--port", "0", "--topic", "orders:3", "--json")
    assert process.stdout is not None
    told = json.loads(await process.stdout.readline())

    found = await start("topics", "--brokers", told["bootstrap"], "--json")
    topics = json.loads((await found.communicate())[0])
    assert topics == [{"topic": "orders", "partitions": 3, "end_offsets": [0, 0, 0]}]

    process.send_signal(number)
    await process.communicate()
    assert process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(told["pid"], 0)


@pytest.mark.full
async def test_up_says_so_when_its_broker_ends_by_itself() -> None:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "up",
        "--port",
        "0",
        "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    told = json.loads(await process.stdout.readline())
    os.kill(told["pid"], signal.SIGKILL)

    said = (await process.communicate())[1].decode()

    assert process.returncode != 0
    assert re.search(r"BrokerError: the broker at 127\.0\.0\.1:\d+ ended by itself", said)
