"""The init job: topics are there afterwards, however often it runs, and brokers may come later."""

import asyncio
import os
import subprocess
import sys
import uuid
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from servers import USERS, GuardedBroker

from headrace.functions.run_tracking.__main__ import broker_variables, startup_message
from headrace.functions.run_tracking.settings import SettingsError
from headrace.functions.run_tracking.topics import TopicsError, client_options, create_topics, topics_of
from headrace.runtime.embedded.ports import free_port


@pytest.fixture
def names() -> dict[str, str]:
    """The variables of two topics of this test's own."""
    own = uuid.uuid4().hex[:8]
    return {"KAFKA_DATA_INGESTION_TOPIC": f"{own}.data", "KAFKA_CONTROL_EVENTS_TOPIC": f"{own}.control"}


async def partitions_of(options: dict[str, Any], topics: list[str]) -> dict[str, int]:
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        found = await admin.describe_topics(topics)
        return {topic["topic"]: len(topic["partitions"]) for topic in found}
    finally:
        await admin.close()


def job(broker: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "headrace.functions.run_tracking.topics",
        "--brokers",
        broker,
        *arguments,
    ]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


async def test_topics_and_those_of_dead_letters_are_there_afterwards(
    broker: Broker, names: dict[str, str]
) -> None:
    done = await asyncio.to_thread(job, broker.bootstrap, "--ingestion-partitions", "3", **names)
    assert done.returncode == 0, done.stderr
    data, control = names.values()
    wanted = {data: 3, control: 1, f"{data}.dlq": 1, f"{control}.dlq": 1}
    assert await partitions_of(client_options(broker.bootstrap, {}), list(wanted)) == wanted
    assert sorted(done.stdout.splitlines()) == sorted(f"{name}: created" for name in wanted)


def test_a_second_job_says_what_is_there_and_changes_nothing(broker: Broker, names: dict[str, str]) -> None:
    job(broker.bootstrap, "--ingestion-partitions", "3", **names)
    again = job(broker.bootstrap, "--ingestion-partitions", "5", **names)
    assert again.returncode == 0
    data = names["KAFKA_DATA_INGESTION_TOPIC"]
    assert f"{data}: exists, partitions: 3" in again.stdout.splitlines()


async def test_two_jobs_at_once_are_both_content(broker: Broker, names: dict[str, str]) -> None:
    options, topics = client_options(broker.bootstrap, {}), topics_of(names)
    await asyncio.gather(*(create_topics(options, topics) for _ in range(3)))
    assert await partitions_of(options, list(topics)) == topics


async def test_a_broker_that_comes_later_is_waited_for(names: dict[str, str]) -> None:
    port = free_port()
    said: list[str] = []
    from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

    options, topics = client_options(f"127.0.0.1:{port}", {}), topics_of(names)
    waiting = asyncio.create_task(create_topics(options, topics, say=said.append, pause_seconds=0.5))
    while not said:
        await asyncio.sleep(0.01)
    async with EmbeddedKafka(port=port):
        await waiting
    assert said[0].startswith("attempt 1 of 30: ")
    assert [line for line in said if line.endswith(": created")] == said[-4:]


async def test_a_broker_that_never_comes_is_one_line() -> None:
    said: list[str] = []
    options = client_options("127.0.0.1:1", {})
    with pytest.raises(TopicsError, match="could not be created"):
        await create_topics(options, {"a": 1}, say=said.append, pause_seconds=0)
    assert len(said) == 30
    assert not any("\n" in line for line in said)


def test_what_a_broker_refuses_ends_the_job_with_one_line(broker: Broker, names: dict[str, str]) -> None:
    done = job(broker.bootstrap, "--replication-factor", "9", **names)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "eplication" in done.stderr


def test_it_signs_in_as_the_environment_says(guarded: GuardedBroker, names: dict[str, str]) -> None:
    variables = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
        "KAFKA_SASL_USERNAME": "ada",
        "KAFKA_SASL_PASSWORD": USERS["ada"],
    }
    done = job(guarded.sasl_bootstrap, **names, **variables)
    assert done.returncode == 0, done.stderr


def test_a_protocol_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="KAFKA_SECURITY_PROTOCOL is 'TLS'"):
        client_options("a:1", {"KAFKA_SECURITY_PROTOCOL": "tls"})


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [
        ("", "false", "false"),
        ("PLAINTEXT", "false", "false"),
        ("SSL", "true", "false"),
        ("SASL_PLAINTEXT", "false", "true"),
        ("sasl_ssl", "true", "true"),
    ],
)
def test_the_function_is_told_of_the_protocol_in_two_words(protocol: str, tls: str, sasl: str) -> None:
    told = broker_variables("a:9093", {"KAFKA_SECURITY_PROTOCOL": protocol})
    assert told == {"KAFKA_BOOTSTRAP_SERVERS": "a:9093", "TRACKING_TLS": tls, "TRACKING_SASL": sasl}


def test_whoever_starts_it_is_told_where_it_is() -> None:
    said = startup_message({"FRONTIER_PORT": "1234", "BACKEND_PORT": "1235"})
    assert "http://127.0.0.1:1235\n" in said
    assert said.endswith("-m headrace.functions.run_tracking.client --frontier http://127.0.0.1:1234")
