"""`python -m headrace.functions.run_tracking.topics`: create the two topics and those of their dead letters.

Meant as an init job: it may run at each start, and waits for brokers that start at the same time.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from headrace.functions.run_tracking.settings import SettingsError, read_settings

# With the pause a minute, in which brokers that start at the same time have to be there.
_ATTEMPTS = 30
_PAUSE_SECONDS = 2.0
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class TopicsError(Exception):
    """The topics could not be created. The message is one line."""


def client_options(brokers: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return aiokafka's client options for `brokers`, HOST:PORT with commas between. Raises SettingsError."""
    servers = [part.strip() for part in brokers.split(",") if part.strip()]
    return {"bootstrap_servers": servers, **_security(environment)}


def _security(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that KAFKA_SECURITY_PROTOCOL and KAFKA_SASL_* set."""
    protocol = environment.get("KAFKA_SECURITY_PROTOCOL", "").strip().upper() or "PLAINTEXT"
    if protocol not in _SECURITY_PROTOCOLS:
        raise SettingsError(
            f"KAFKA_SECURITY_PROTOCOL is {protocol!r}: expected {', '.join(_SECURITY_PROTOCOLS)}"
        )
    options: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        options["ssl_context"] = ssl.create_default_context()
    if protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": environment.get("KAFKA_SASL_MECHANISM", "").strip() or "PLAIN",
            "sasl_plain_username": environment.get("KAFKA_SASL_USERNAME", ""),
            "sasl_plain_password": environment.get("KAFKA_SASL_PASSWORD", ""),
        }
    return options


async def create_topics(
    client_options: Mapping[str, Any],
    topics: Mapping[str, int],
    replication_factor: int = 1,
    *,
    say: Callable[[str], object] = lambda _: None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> None:
    """Create topics, given as partitions by name; existing ones stay as they are.

    `client_options` are aiokafka's. Tries 30 times with pauses. Raises TopicsError if brokers refuse, or none
    has answered by then.
    """
    new_topics = [NewTopic(name, count, replication_factor) for name, count in topics.items()]
    reason = ""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            for line in await _create(client_options, new_topics):
                say(line)
        # An init job starts beside its brokers: refused connections are expected at first.
        except (KafkaError, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            say(f"attempt {attempt} of {_ATTEMPTS}: {reason}")
            if attempt < _ATTEMPTS:
                await asyncio.sleep(pause_seconds)
        else:
            return
    raise TopicsError(f"the topics could not be created: {reason}")


async def _create(client_options: Mapping[str, Any], new_topics: Sequence[Any]) -> list[str]:
    """Create the topics once; return a line for each."""
    admin = AIOKafkaAdminClient(**client_options)
    try:
        await admin.start()
        answers = (await admin.create_topics(new_topics)).topic_errors
        # An existing topic keeps its partitions, whatever was asked for: its line says how many it has.
        found = {
            topic["topic"]: topic for topic in await admin.describe_topics([it.name for it in new_topics])
        }
        return [_line(*answer, partitions=len(found[answer[0]]["partitions"])) for answer in answers]
    finally:
        await admin.close()


def _line(name: str, code: int, message: str | None = None, *, partitions: int) -> str:
    """Return a topic's line. Raises KafkaError for a passing failure, TopicsError for any other."""
    error = for_code(code)
    if code == 0:
        return f"{name}: created"
    if error is TopicAlreadyExistsError:
        return f"{name}: exists, partitions: {partitions}"
    # Such as a broker that has just started and knows no controller yet.
    if error.retriable:
        raise error(message)
    raise TopicsError(f"{name}: {message or error.description}")


def topics_of(environment: Mapping[str, str], ingestion: int = 6, control: int = 1) -> dict[str, int]:
    """Return the number of partitions of each topic, by name. Raises SettingsError."""
    settings = read_settings(environment)
    topics = {settings.data_ingestion_topic: ingestion, settings.control_events_topic: control}
    # The names that function.yaml has as deadLetterTopic.
    return topics | {f"{name}.dlq": 1 for name in topics}


@click.command()
@click.option("--brokers", required=True, metavar="HOST:PORT[,...]", envvar="KAFKA_BOOTSTRAP_SERVERS")
@click.option("--ingestion-partitions", type=click.IntRange(1), default=6, show_default=True)
@click.option("--control-partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(1), default=1, show_default=True)
def main(brokers: str, ingestion_partitions: int, control_partitions: int, replication_factor: int) -> None:
    """Create the topics that aren't there. Signs in as KAFKA_SECURITY_PROTOCOL and KAFKA_SASL_* say."""
    try:
        topics = topics_of(os.environ, ingestion_partitions, control_partitions)
        options = client_options(brokers, os.environ)
        asyncio.run(create_topics(options, topics, replication_factor, say=click.echo))
    except (SettingsError, TopicsError, ValueError) as error:
        click.echo(error, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
