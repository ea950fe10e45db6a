"""`headrace kafka`: a broker, and hands on any broker. No JVM tools needed."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headrace.runtime.cli.kafka.groups import groups, lag, seek
from headrace.runtime.cli.kafka.options import broker_options
from headrace.runtime.cli.records.columns import Columns, show_columns
from headrace.runtime.cli.records.formats import json_line, line_of_json, text_line
from headrace.runtime.cli.records.lines import keyed_line, made_up, paced, stdin_batches
from headrace.runtime.cli.records.options import as_json_option, record_options
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.jars import KAFKA_VERSION
from headrace.runtime.errors import BrokerError, UsageError
from headrace.runtime.kafka import client
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import RecordToSend
from headrace.runtime.kafka.names import DEFAULT_PORT
from headrace.runtime.processor.stopping import until_signal

_MANY_PARTITIONS = 16


class TopicPartitions(click.ParamType[tuple[str, int]]):
    """name:partitions, as in orders:8."""

    name = "name:partitions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        name, _, partitions = str(value).rpartition(":")
        if not name or not partitions.isdecimal() or int(partitions) < 1:
            self.fail(f"{value!r} is not name:partitions, as in orders:8", param, ctx)
        return name, int(partitions)


@click.group()
def kafka() -> None:
    """A broker, and hands on it; no JVM tools needed."""
    client.quiet_client()


# These three have a module of their own.
kafka.add_command(groups)
kafka.add_command(lag)
kafka.add_command(seek)


@kafka.command()
@click.option("--port", default=DEFAULT_PORT, show_default=True, help="0 takes a free one.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the records in this folder; without it they go when the broker stops.",
)
@click.option("--topic", "topics", type=TopicPartitions(), multiple=True, help="Create a topic.")
@as_json_option
def up(port: int, data: Path | None, topics: Sequence[tuple[str, int]], as_json: bool) -> None:
    """Run Apache Kafka here until Ctrl-C."""
    until_signal(_up(EmbeddedKafka(data, port=port), dict(topics), data, as_json))


@kafka.command(name="topics")
@broker_options
@click.option("--create", type=TopicPartitions(), multiple=True, help="Create, then list.")
@click.option("--delete", multiple=True, metavar="NAME", help="Delete, then list.")
@as_json_option
def list_topics(
    brokers: BrokerAccess, create: Sequence[tuple[str, int]], delete: Sequence[str], as_json: bool
) -> None:
    """List the topics with their partitions and end offsets; create or delete some first."""
    listed = asyncio.run(client.list_topics(brokers, dict(create), list(delete)))
    if as_json:
        click.echo(json.dumps(listed))
        return
    heads = ("topic", "partitions", "records up to (end offset per partition)")
    rows = [(it["topic"], str(it["partitions"]), _ends(it["end_offsets"])) for it in listed]
    show_columns(Columns(heads, rows))


@kafka.command()
@broker_options
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(min=0), help="Default: by key, or spread.")
@record_options
@as_json_option
def produce(  # noqa: PLR0913, PLR0917 one parameter per option
    brokers: BrokerAccess,
    topic: str,
    partition: int | None,
    keyed: bool,
    count: int | None,
    size: int,
    rate: float | None,
    as_json: bool,
) -> None:
    """Send the lines of stdin, or COUNT made-up records of SIZE bytes, to a topic.

    With --json lines are records as `consume --json` prints them, and keep their partition.
    """
    understood = keyed_line if keyed else line_of_json if as_json else RecordToSend
    # Made-up records need no stdin, which may be a terminal.
    batches = made_up(count, size, rate) if count else stdin_batches(understood)
    began = time.monotonic()
    sent = asyncio.run(client.produce(brokers, topic, partition, paced(batches, rate), count))
    seconds = time.monotonic() - began
    if as_json:
        click.echo(json.dumps({"topic": topic, "records": sent, "seconds": round(seconds, 3)}))
    else:
        click.echo(f"produced {sent} records to {topic} in {seconds:.1f} s", err=True)


@kafka.command()
@broker_options
@click.option("--topic", required=True)
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
)
@click.option("--partition", type=click.IntRange(min=0), help="Of this one alone; else of all.")
@click.option("--offset", type=click.IntRange(min=0), help="From there on, in --partition.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many; else at Ctrl-C.")
@as_json_option
def consume(  # noqa: PLR0913, PLR0917  # one for each option
    brokers: BrokerAccess,
    topic: str,
    start: str,
    partition: int | None,
    offset: int | None,
    count: int | None,
    as_json: bool,
) -> None:
    """Print the records of a topic as they come; joins no group and commits nothing."""
    if offset is not None and partition is None:
        raise UsageError("--offset is one of a partition: say which with --partition")
    place = client.ReadPosition(topic, start if offset is None else offset, partition)
    in_form = json_line if as_json else text_line
    until_signal(client.consume(brokers, place, count, lambda it: click.echo(in_form(it))))


def _ends(offsets: Sequence[int]) -> str:
    # A topic may have thousands of partitions.
    more = f" and {len(offsets) - _MANY_PARTITIONS} more" if len(offsets) > _MANY_PARTITIONS else ""
    return " ".join(map(str, offsets[:_MANY_PARTITIONS])) + more


async def _up(broker: EmbeddedKafka, topics: dict[str, int], data: Path | None, as_json: bool) -> None:
    began = time.monotonic()
    async with broker:
        # Before the address is told: whoever waits for that line may use the topics at once.
        if topics:
            await broker.create_topics(topics)
        if as_json:
            click.echo(json.dumps({"bootstrap": broker.bootstrap, "pid": broker.pid}))
        else:
            kept = f"records are kept in {data}" if data else "records go when it stops"
            seconds = time.monotonic() - began
            click.echo(f"Apache Kafka {KAFKA_VERSION} at {broker.bootstrap} ({seconds:.1f} s)")
            click.echo(f"{kept}; Ctrl-C stops it")
        # Ctrl-C cancels this wait: only a broker that ends by itself gets past it.
        why = await broker.wait()
        raise BrokerError(f"the broker at {broker.bootstrap} ended by itself: {why}")
