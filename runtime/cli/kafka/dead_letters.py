"""`headrace deadletters`: what failed for good, looked at and sent back."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import click

from headrace.runtime.cli.kafka.dead_letter_formats import _letter_json, _letter_lines, _letter_row
from headrace.runtime.cli.kafka.options import broker_options
from headrace.runtime.cli.records.columns import Columns, show_columns
from headrace.runtime.errors import printable
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import quiet_client
from headrace.runtime.kafka.dead_letter_reader import DeadLetter, DeadLetterTopic, PartitionOffset, opened
from headrace.runtime.kafka.replay.replay import Replay, replaying

_PLACE = re.compile(r"([0-9]{1,9})/([0-9]{1,18})")


class PartitionOffsetType(click.ParamType[PartitionOffset]):
    """PARTITION/OFFSET in the dead-letter topic, as in 0/12."""

    name = "partition/offset"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> PartitionOffset:
        found = _PLACE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not PARTITION/OFFSET, as in 0/12", param, ctx)
        return int(found[1]), int(found[2])


@click.group()
def deadletters() -> None:
    """Look at the records of a dead-letter topic, and send them back."""
    quiet_client()


@deadletters.command(name="list")
@click.argument("topic")
@broker_options
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="The newest so many."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON line per record, for programs.")
def list_letters(topic: str, brokers: BrokerAccess, limit: int, as_json: bool) -> None:
    """List the records of TOPIC: where each lies, when and where it came from, and why it is here."""
    letters, total = asyncio.run(_newest(brokers, topic, limit))
    if as_json:
        for letter in letters:
            click.echo(_letter_json(letter))
    elif letters:
        show_columns(
            Columns(("record", "time", "source", "attempts", "error"), list(map(_letter_row, letters)))
        )
    else:
        click.echo(f"{topic} is empty")
    if total > len(letters) == limit:
        click.echo(f"the newest {limit} of {total}; --limit shows more", err=True)


@deadletters.command()
@click.argument("topic")
@click.argument("place", metavar="PARTITION/OFFSET", type=PartitionOffsetType())
@broker_options
def show(topic: str, place: PartitionOffset, brokers: BrokerAccess) -> None:
    """Show all of one record of TOPIC: its error, headers, key and body, as text or in hex."""
    for line in _letter_lines(asyncio.run(_get(brokers, topic, place))):
        click.echo(line)


@deadletters.command()
@click.argument("topic")
@click.argument("places", metavar="[PARTITION/OFFSET]...", type=PartitionOffsetType(), nargs=-1)
@broker_options
@click.option("--all", "take_all", is_flag=True, help="Every record that the topic holds now.")
@click.option(
    "--source",
    "sources",
    metavar="TOPIC",
    multiple=True,
    help="A topic that records may go back to. Records that say to come from another one are skipped.",
)
@click.option("--to", metavar="TOPIC", help="One topic for all, wherever they came from.")
@click.option(
    "--keep-timestamps",
    is_flag=True,
    help="Write each with its first time. Refused where a topic would delete or refuse any for that.",
)
def replay(  # noqa: PLR0913  # a parameter per option
    topic: str,
    places: tuple[PartitionOffset, ...],
    brokers: BrokerAccess,
    *,
    take_all: bool,
    sources: tuple[str, ...],
    to: str | None,
    keep_timestamps: bool,
) -> None:
    """Write records of TOPIC back to where they came from, as they were before they failed.

    Records go to the topics only that --source or --to names: whoever may write to TOPIC may write any name
    into one. Each goes to the partition that it came from, if that is still there, without the headers that
    say why it failed, and with the present time, so that retention does not delete it: the header
    headrace-first-timestamp has the first one. Nothing is deleted: TOPIC keeps them, and replaying twice
    writes twice.
    """
    if take_all == bool(places):
        raise click.UsageError("say which records: PARTITION/OFFSET, as `list` shows them, or --all")
    asyncio.run(_replay(brokers, topic, places, replaying(brokers, sources, to), keeps=keep_timestamps))


async def _newest(brokers: BrokerAccess, topic: str, limit: int) -> tuple[list[DeadLetter], int]:
    async with opened(brokers, topic) as found:
        return await found.newest(limit), sum(end - first for first, end in found.bounds.values())


async def _get(brokers: BrokerAccess, topic: str, place: PartitionOffset) -> DeadLetter:
    async with opened(brokers, topic) as found:
        return await found.get(place)


async def _replay(
    brokers: BrokerAccess,
    topic: str,
    places: Sequence[PartitionOffset],
    starting: AbstractAsyncContextManager[Replay],
    *,
    keeps: bool,
) -> None:
    counts = {True: 0, False: 0}
    async with opened(brokers, topic) as found:
        letters = [await found.get(place) for place in dict.fromkeys(places)]
        async with starting as replay:
            if keeps:
                async for letter in _chosen(found, letters):
                    await replay.check(letter)
            try:
                async for letter in _chosen(found, letters):
                    is_written, line = await replay.write(letter)
                    counts[is_written] += 1
                    click.echo(printable(line))
            finally:
                click.echo(f"{counts[True]} written, {counts[False]} skipped; {topic} keeps them", err=True)


async def _chosen(topic: DeadLetterTopic, letters: Sequence[DeadLetter]) -> AsyncIterator[DeadLetter]:
    """Those, or all that there are, each partition in order."""
    for letter in letters:
        yield letter
    for partition, (first, end) in topic.bounds.items() if not letters else ():
        async for letter in topic.read(partition, first, end):
            yield letter
