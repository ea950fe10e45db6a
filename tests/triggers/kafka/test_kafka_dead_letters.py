"""Dead letters on a real broker: what is written, what a failure says, and that it leaves nothing behind."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Callable

import pytest
from broker import Broker
from dead_letters import Record, dead_letters, written
from hypothesis import given
from hypothesis import strategies as st
from processes import freeze
from servers import USERS, GuardedBroker

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.dead_letter_headers import Provenance, split_headers
from headrace.runtime.kafka.topics import create_topics
from headrace.triggers.kafka import dead_letters as kafka_dead_letters
from headrace.triggers.kafka.dead_letters import KafkaDeadLetters
from headrace.triggers.kafka.settings.connection import SaslSettings

Make = Callable[..., KafkaDeadLetters]


async def write(
    letters: KafkaDeadLetters, record: Record, partition: int = 3, reason: str = "it broke"
) -> None:
    await letters.write(record, "orders", partition, reason, 4)


@pytest.mark.parametrize(
    ("key", "value"), [(b"\xff\x00", b"\x00\xfe"), (None, b"v"), (b"k", None), (None, None), (b"", b"")]
)
async def test_a_record_is_written_byte_for_byte_with_its_provenance(
    broker: Broker, topic: str, key: bytes | None, value: bytes | None
) -> None:
    headers = (("trace", b"\x00\xff"), ("twice", b"1"), ("none", None), ("twice", b"2"), ("", b""))
    before = time.time() * 1000 - 1
    async with dead_letters(broker.bootstrap, topic) as letters:
        await write(letters, Record(key=key, value=value, headers=headers))
    (record,) = await written(broker.bootstrap, topic, 1)
    assert (record.key, record.value) == (key, value)
    assert record.timestamp >= before  # when it failed: the topic's retention counts from there
    assert record.headers[: len(headers)] == headers
    assert record.headers[len(headers) :] == (
        ("headrace-source-topic", b"orders"),
        ("headrace-source-partition", b"3"),
        ("headrace-source-offset", b"41"),
        ("headrace-source-timestamp", b"1700000000123"),
        ("headrace-error", b"it broke"),
        ("headrace-attempts", b"4"),
        ("headrace-function", b"shop"),
    )


@pytest.mark.parametrize("timestamp", [None, -1])
async def test_the_provenance_of_a_record_without_a_timestamp_says_so(
    broker: Broker, topic: str, timestamp: int | None
) -> None:
    async with dead_letters(broker.bootstrap, topic) as letters:
        await write(letters, Record(timestamp=timestamp))
    (record,) = await written(broker.bootstrap, topic, 1)
    _, provenance = split_headers(record.headers)
    assert provenance is not None
    assert provenance.timestamp is None


async def test_what_failed_in_a_partition_stays_in_order_and_partitions_do_not_wait(
    broker: Broker, topic: str
) -> None:
    async def one_by_one(letters: KafkaDeadLetters, partition: int) -> None:
        for offset in range(20):
            await write(letters, Record(offset=offset), partition)

    async with dead_letters(broker.bootstrap, topic) as letters:
        await asyncio.gather(*(one_by_one(letters, partition) for partition in range(12)))
    records = await written(broker.bootstrap, topic, 240)
    for partition in range(12):
        found = [split_headers(record.headers)[1] for record in records if record.partition == partition % 8]
        assert [p.offset for p in found if p and p.partition == partition] == list(range(20))


async def test_a_topic_that_is_not_there_is_said_and_found_once_it_is(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_dead_letters, "_TOPIC_SECONDS", 1.0)
    topic = f"dlq-{uuid.uuid4().hex}"
    async with dead_letters(broker.bootstrap, topic) as letters:
        began = time.monotonic()
        failures = await asyncio.gather(
            *(write(letters, Record(), partition) for partition in range(4)), return_exceptions=True
        )
        assert time.monotonic() - began < 30
        for failure in failures:
            assert isinstance(failure, BrokerError)
            assert f"there is no dead-letter topic {topic} at {broker.bootstrap}" in str(failure)
        await create_topics(BrokerAccess(broker.bootstrap), {topic: 2})
        await write(letters, Record())
    assert len(await written(broker.bootstrap, topic, 1)) == 1


async def test_a_record_that_is_too_large_names_the_setting_and_harms_no_other(broker: Broker) -> None:
    topic = f"dlq-{uuid.uuid4().hex}"
    await create_topics(BrokerAccess(broker.bootstrap), {topic: 1}, {"max.message.bytes": "2000"})
    async with dead_letters(broker.bootstrap, topic) as letters:
        await write(letters, Record())
        results = await asyncio.gather(
            *(write(letters, Record(offset=n, value=b"." * (3000 if n % 3 == 0 else 10))) for n in range(30)),
            return_exceptions=True,
        )
        await write(letters, Record())
    for number, result in enumerate(results):
        if number % 3 == 0:
            assert isinstance(result, BrokerError)
            assert f"dead-letter topic {topic}" in str(result)
            assert "max.message.bytes" in str(result)
        else:
            assert result is None
    await written(broker.bootstrap, topic, 22)


async def test_a_large_record_is_held_up_by_the_topic_only(broker: Broker) -> None:
    topic = f"dlq-{uuid.uuid4().hex}"
    await create_topics(BrokerAccess(broker.bootstrap), {topic: 1}, {"max.message.bytes": "6000000"})
    async with dead_letters(broker.bootstrap, topic) as letters:
        await write(letters, Record(value=b"." * 5_000_000))
    await written(broker.bootstrap, topic, 1)


async def test_many_partitions_that_fail_at_once_share_one_dead_letter_partition(broker: Broker) -> None:
    topic = broker.create_topic(1)
    async with dead_letters(broker.bootstrap, topic) as letters:
        await asyncio.gather(*(write(letters, Record(), partition) for partition in range(1000)))
    await written(broker.bootstrap, topic, 1000)


async def test_no_broker_is_one_line_at_once() -> None:
    async with dead_letters("127.0.0.1:1", "dlq") as letters:
        with pytest.raises(BrokerError, match=r"no broker answers at 127\.0\.0\.1:1"):
            await write(letters, Record())


async def test_a_frozen_broker_bounds_the_write_and_the_close_and_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_dead_letters, "_WRITE_SECONDS", 1.5)
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({"dlq": 1})
        async with dead_letters(kafka.bootstrap, "dlq") as letters:
            await write(letters, Record())
            assert kafka.pid is not None
            freeze(kafka.pid)
            began = time.monotonic()
            try:
                with pytest.raises(BrokerError, match=r"did not confirm a record in dead-letter topic dlq"):
                    await write(letters, Record(offset=42))
                async with dead_letters(kafka.bootstrap, "dlq") as others:
                    with pytest.raises(BrokerError):
                        await write(others, Record(offset=43))
            finally:
                os.kill(kafka.pid, signal.SIGCONT)
            assert time.monotonic() - began < 30
            await write(letters, Record(offset=44))


async def test_a_close_ends_a_write_that_waits(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_dead_letters, "_TOPIC_SECONDS", 600.0)
    async with dead_letters(broker.bootstrap, f"dlq-{uuid.uuid4().hex}") as letters:
        waiting = asyncio.create_task(write(letters, Record()))
        await asyncio.sleep(0)
        began = time.monotonic()
        await letters.close()
        with pytest.raises(BrokerError):
            await waiting
        with pytest.raises(BrokerError, match="before the stop"):
            await write(letters, Record())
        assert time.monotonic() - began < 30


async def test_a_cancelled_write_leaves_nothing_behind(broker: Broker, topic: str) -> None:
    async with dead_letters(broker.bootstrap, topic) as letters:
        for delay in (0, 0.001, 0.005, 0.02):
            task = asyncio.create_task(write(letters, Record()))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait([task])
        await write(letters, Record())


async def test_it_signs_in_as_the_trigger_does(guarded: GuardedBroker) -> None:
    topic = guarded.plain.create_topic(1)
    for password in ("wrong", USERS["ada"]):
        sasl = SaslSettings(enable=True, user="ada", password=password, mechanism="SCRAM-SHA-256")
        async with dead_letters(guarded.sasl_bootstrap, topic, sasl=sasl) as letters:
            if password == "wrong":
                with pytest.raises(BrokerError):
                    await write(letters, Record())
            else:
                await write(letters, Record())


@given(
    st.builds(
        Provenance,
        topic=st.text(),
        partition=st.integers(0),
        offset=st.integers(0),
        timestamp=st.none() | st.integers(0, 2**63 - 1),
        error=st.text(max_size=500),
        attempts=st.integers(1),
        function=st.text(),
    ),
    st.lists(st.tuples(st.sampled_from(["a", "headrace-error", "headrace-source-topic"]), st.binary())),
)
def test_provenance_comes_back_and_leaves_the_record_its_own_headers(
    provenance: Provenance, own: list[tuple[str, bytes | None]]
) -> None:
    assert split_headers([*own, *provenance.headers()]) == (own, provenance)


def test_a_dead_letter_that_fails_again_loses_one_provenance_at_a_time() -> None:
    first, second = (Provenance(topic, 0, 1, None, "e", 4, "f") for topic in ("orders", "dlq"))
    own = [("h", b"1")]
    once = [*own, *first.headers()]
    assert split_headers([*once, *second.headers()]) == (once, second)
    assert split_headers(once) == (own, first)
    assert split_headers(own) == (own, None)


def test_a_long_error_keeps_its_beginning_and_its_end_within_two_kibibytes() -> None:
    error = dict(
        Provenance("t", 0, 0, None, "Traceback\n" + "é" * 5000 + "\nValueError: no", 1, "f").headers()
    )["headrace-error"]
    assert error is not None
    assert len(error) <= 2048
    assert error.decode().startswith("Traceback\né")
    assert error.decode().endswith("é\nValueError: no")


async def test_a_header_name_that_is_no_utf8_is_spelled_out_and_its_bytes_follow(
    broker: Broker, topic: str
) -> None:
    async with dead_letters(broker.bootstrap, topic) as letters:
        record = Record(headers=(("caf\udce9", b"1"), ("a\\xe9", b"2"), ("é", None)))
        await letters.write(record, "orders", 2, "boom", 3)
    (copy,) = await written(broker.bootstrap, topic, 1)
    raw = ("headrace-raw-header-name", b"caf\xe9")
    assert copy.headers[:4] == (("caf\\xe9", b"1"), raw, ("a\\xe9", b"2"), ("é", None))
