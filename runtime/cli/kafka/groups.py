"""`headrace kafka groups`, `lag` and `seek`: how far consumer groups are, and setting one back or forth."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from headrace.runtime.cli.kafka.options import broker_options
from headrace.runtime.cli.records.columns import Columns, View, show_columns, shown, watch
from headrace.runtime.cli.records.options import as_json_option, watch_options
from headrace.runtime.errors import UsageError, printable
from headrace.runtime.kafka import groups as consumer_groups
from headrace.runtime.kafka import seek as group_seek
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.groups import ConsumerGroup, PartitionLag
from headrace.runtime.kafka.names import TOPIC_NAME_PATTERN
from headrace.runtime.kafka.seek import Target, TopicOrPartition
from headrace.runtime.partitions.key import describe_partitions
from headrace.runtime.processor.stopping import until_signal

# As many digits as surely fit into Kafka's partition numbers (32 bits) and offsets (64 bits).
_PLACE = re.compile(rf"({TOPIC_NAME_PATTERN})(?:/([0-9]{{1,9}}))?")
_OFFSET = re.compile(r"[0-9]{1,18}")
_ENDS: dict[str, Target] = {"earliest": "earliest", "latest": "latest"}


class TopicOrPartitionType(click.ParamType[TopicOrPartition]):
    """TOPIC or TOPIC/PARTITION, as in orders or orders/3."""

    name = "topic or topic/partition"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicOrPartition:
        found = _PLACE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is neither TOPIC nor TOPIC/PARTITION, as in orders/3", param, ctx)
        return found[1], int(found[2]) if found[2] else None


class SeekTarget(click.ParamType[Target]):
    """earliest, latest, an offset or a time."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        target = _target(str(value))
        if target is None:
            expected = "earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z"
            self.fail(f"{value!r} is none of {expected}", param, ctx)
        return target


def _target(text: str) -> Target | None:
    if text in _ENDS:
        return _ENDS[text]
    # Digits alone are an offset, though ISO 8601 would take eight of them for a date.
    if _OFFSET.fullmatch(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        return time if time.timestamp() >= 0 else None  # Kafka's timestamps begin in 1970
    except (ValueError, OverflowError):
        return None


@click.command()
@broker_options
@as_json_option
def groups(brokers: BrokerAccess, as_json: bool) -> None:
    """List the consumer groups: their state, and how many members they have."""
    found = asyncio.run(consumer_groups.list_groups(brokers))
    if as_json:
        click.echo(json.dumps([asdict(group) for group in found]))
        return
    rows = [(it.name, it.state, str(len(it.members)), it.protocol, shown(it.epoch)) for it in found]
    show_columns(Columns(("group", "state", "members", "protocol", "epoch"), rows))


@click.command()
@click.argument("group")
@broker_options
@as_json_option
@click.option("--watch", "is_watched", is_flag=True, help="Again and again: redrawn, or appended in a pipe.")
@watch_options
def lag(  # noqa: PLR0913  # one for each option
    group: str, brokers: BrokerAccess, *, as_json: bool, is_watched: bool, interval: float, count: int | None
) -> None:
    """Show how far GROUP is behind on each partition that it has committed or that a member has.

    \b
    Exit codes: 3 the broker doesn't answer, 4 there is no such group.
    """
    if is_watched and as_json:
        raise UsageError("--watch is for people, and --json says it once: give one of them")
    if is_watched:
        until_signal(watch(partial(_fetch, brokers, group), interval, count))
        return
    found, partitions = asyncio.run(consumer_groups.read_lag(brokers, group))
    if as_json:
        rows = [{**asdict(partition), "lag": partition.lag} for partition in partitions]
        click.echo(json.dumps({**asdict(found), "lag": _total(partitions), "partitions": rows}))
        return
    show_columns(_lag_columns(partitions))
    click.echo(printable(_describe(found, partitions)))


@click.command()
@click.argument("group")
@click.argument(
    "places", metavar="TOPIC[/PARTITION]...", type=TopicOrPartitionType(), nargs=-1, required=True
)
@click.option(
    "--to",
    type=SeekTarget(),
    required=True,
    metavar="earliest|latest|OFFSET|TIME",
    help="A time is ISO 8601, UTC where it names no zone: the first record at or after it.",
)
@broker_options
@as_json_option
def seek(
    group: str, places: Sequence[TopicOrPartition], to: Target, brokers: BrokerAccess, as_json: bool
) -> None:
    """Have GROUP go on from elsewhere, on all of a topic or one partition. Nobody may be in the group.

    What a function's commits said besides the offset (acks beyond it, attempts) is void from then on.

    \b
    Exit codes: 2 a mistake in the command, 3 the broker doesn't answer or has no such topic,
    4 there is no such group, 5 the group has members.
    """
    moves = asyncio.run(group_seek.seek(brokers, group, places, to))
    if as_json:
        click.echo(json.dumps({"group": group, "moves": [asdict(move) for move in moves]}))
        return
    rows = [(it.topic, *map(shown, (it.partition, it.before, it.after))) for it in moves]
    show_columns(Columns(("topic", "partition", "before", "after"), rows))


async def _fetch(brokers: BrokerAccess, name: str) -> View:
    group, partitions = await consumer_groups.read_lag(brokers, name)
    return View(_lag_columns(partitions), _describe(group, partitions))


def _total(partitions: Sequence[PartitionLag]) -> int:
    # No lag is known where nothing is committed, or the partition's end isn't told: it adds nothing.
    return sum(partition.lag or 0 for partition in partitions)


def _describe(group: ConsumerGroup, partitions: Sequence[PartitionLag]) -> str:
    holds = [f"; {it.client} has {describe_partitions(it.partitions)}" for it in group.members]
    return f"group {group.name} is {group.state}{''.join(holds)}; lag {_total(partitions)} in all"


def _lag_columns(partitions: Sequence[PartitionLag]) -> Columns:
    heads = ("topic", "partition", "committed", "end", "lag", "member")
    numbers = [map(shown, (it.partition, it.committed, it.end, it.lag)) for it in partitions]
    rows = [(it.topic, *cells, it.client or "-") for it, cells in zip(partitions, numbers, strict=True)]
    return Columns(heads, rows)
