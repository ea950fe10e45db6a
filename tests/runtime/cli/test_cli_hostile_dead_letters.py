"""Dead letters that say anything of themselves: each is one line, and the rest goes on. On a real broker."""

import asyncio
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from broker import Broker
from click.testing import CliRunner

from headrace.runtime.cli.kafka.dead_letters import deadletters
from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.dead_letter_headers import (
    ATTEMPTS,
    ERROR,
    FIRST_TIMESTAMP,
    FUNCTION,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    Provenance,
)
from headrace.runtime.kafka.dead_letter_reader import DeadLetterTopic
from headrace.runtime.kafka.dead_letter_replay import why_lost

NAMES = (
    "a b",
    "..",
    "x" * 300,
    "x" * 40_000,
    "\n",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
)
HUGE = b"9" * 4000
CHANGES: list[dict[str, bytes | None]] = [
    {},
    {PARTITION: b"-1"},
    {PARTITION: HUGE},
    {OFFSET: b"-9"},
    {OFFSET: HUGE},
    {OFFSET: b"9" * 5000},
    {TIMESTAMP: b"-99"},
    {TIMESTAMP: str(2**63 - 1).encode()},
    {TIMESTAMP: HUGE},
    {ATTEMPTS: b"1.5"},
    {ATTEMPTS: HUGE},
    {PARTITION: None},
    {TOPIC: b"\xff\xfe"},
    {TOPIC: b""},
    {ERROR: b"\xff\x1b]0;x\x07" * 500},
    {FUNCTION: b"\xff"},
    {FIRST_TIMESTAMP: str(2**63 - 1).encode()},
    {FIRST_TIMESTAMP: HUGE},
]
CHANGES += [{TOPIC: name.encode()} for name in NAMES]
"""What another one than Headrace may have written, of headers that are as they should be otherwise."""


def run(broker: Broker, *arguments: str) -> Any:
    environment = {"HEADRACE_BROKERS": broker.bootstrap, "COLUMNS": "250"}
    return CliRunner().invoke(deadletters, arguments, env=environment)


def fail(broker: Broker, topic: str, source: str) -> None:
    usual = dict(Provenance(source, 0, 5, 1000, "boom", 1, "f").headers())

    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for change in CHANGES:
                headers = list({**usual, **change}.items())
                await producer.send_and_wait(topic, b"v", headers=headers, partition=0)
            await producer.send_and_wait(
                topic, b"v", headers=list(usual.items()), partition=0, timestamp_ms=0
            )

    asyncio.run(write())


def test_whatever_a_dead_letter_says_the_others_are_shown_and_go_back(broker: Broker, topic: str) -> None:
    source = broker.create_topic(1)
    fail(broker, topic, source)
    count = len(CHANGES) + 1
    assert len(run(broker, "list", topic).stdout.splitlines()) == count + 1
    listed = [json.loads(line) for line in run(broker, "list", topic, "--json").stdout.splitlines()]
    assert len(listed) == count
    for number in range(0, count, 5):
        shown = run(broker, "show", topic, f"0/{number}")
        assert shown.exit_code == 0
        assert "\x1b" not in shown.stdout
    sources = [word for name in (source, *NAMES, "\udcff") for word in ("--source", name)]
    replayed = run(broker, "replay", topic, "--all", *sources)
    assert replayed.exit_code == 0, replayed.exception
    lines = replayed.stdout.splitlines()
    assert len(lines) == count
    written = [number for number, line in enumerate(lines) if f" -> {source}/0 offset " in line]
    assert {0, count - 1} < set(written)
    skipped = [line for line in lines if " skipped: " in line]
    assert len(written) + len(skipped) == count
    kept = run(broker, "replay", topic, "0/0", "--keep-timestamps", "--source", source)
    assert isinstance(kept.exception, BaseException)  # refused: retention would delete what is of 1970
    assert "would be deleted" in str(kept.exception)


@pytest.mark.parametrize("name", ["x" * 40_000, "\udcff", "a\nb"])
def test_a_name_that_no_topic_has_is_one_line(broker: Broker, topic: str, name: str) -> None:
    source = broker.create_topic(1)
    fail(broker, topic, source)
    for arguments in (("list", name), ("replay", topic, "0/0", "--to", name)):
        refused = run(broker, *arguments)
        assert isinstance(refused.exception, BrokerError), refused.exception
        assert "\n" not in str(refused.exception)


async def test_a_record_that_cannot_be_decoded_is_named() -> None:
    class Consumer:
        def assign(self, _: object) -> None: ...

        def seek(self, *_: object) -> None: ...

        async def getmany(self, *_: object, **__: object) -> None:
            raise RuntimeError("a codec's own\nwords")

        async def position(self, _: TopicPartition) -> int:
            return 7

    found = DeadLetterTopic(Consumer(), "dead", {0: (0, 9)})
    with pytest.raises(BrokerError) as refused:
        await found.newest(9)
    said = str(refused.value)
    assert said.startswith("a record of dead/0, at offset 7 or in the batch of that one, can't be decoded")
    assert "\n" not in said


def test_a_setting_of_a_topic_that_is_no_number_rules_nothing() -> None:
    assert why_lost(0, 10, {"retention.ms": "often"}) is None
