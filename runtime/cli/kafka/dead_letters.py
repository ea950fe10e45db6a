"""`headrace deadletters`: records that failed for good, listed, shown and sent back."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from headrace.runtime.cli.kafka.options import broker_options
from headrace.runtime.cli.records.columns import Columns, show_columns
from headrace.runtime.cli.records.formats import readable
from headrace.runtime.errors import printable
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.client import quiet_client
from headrace.runtime.kafka.dead_letter_reader import DeadLetter, DeadLetterTopic, PartitionOffset, opened
from headrace.runtime.kafka.dead_letter_replay import Replay, replaying
from headrace.runtime.partitions.offsets.failure_text import in_one_line

_HEX_WIDTH = 32
# As many digits as surely fit into Kafka's partition numbers (32 bits) and offsets (64 bits).
_PLACE = re.compile(r"([0-9]{1,9})/([0-9]{1,18})")


class PartitionOffsetType(click.ParamType[PartitionOffset]):
    """Parameter PARTITION/OFFSET: a place in the dead-letter topic, as in 0/12."""

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
    # Offsets are counted, of which compaction and transactions leave some empty: so only behind a full list.
    if total > len(letters) == limit:  # stderr: stdout is for the records alone
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
    asyncio.run(
        _replay(brokers, topic, places, replaying(brokers, sources, to), keeps_timestamps=keep_timestamps)
    )


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
    keeps_timestamps: bool,
) -> None:
    counts = {True: 0, False: 0}
    async with opened(brokers, topic) as found:
        letters = [await found.get(place) for place in dict.fromkeys(places)]  # each once
        async with starting as replay:
            # All are checked before any is written: a replay that is refused has changed nothing.
            if keeps_timestamps:
                async for letter in _chosen(found, letters):
                    await replay.check(letter)
            try:
                async for letter in _chosen(found, letters):
                    is_written, line = await replay.write(letter)
                    counts[is_written] += 1
                    click.echo(printable(line))
            # After an error too: what was written before it stays written.
            finally:
                click.echo(f"{counts[True]} written, {counts[False]} skipped; {topic} keeps them", err=True)


async def _chosen(topic: DeadLetterTopic, letters: Sequence[DeadLetter]) -> AsyncIterator[DeadLetter]:
    """Yield the chosen records, or all of the topic, each partition in order."""
    for letter in letters:
        yield letter
    for partition, (first, end) in topic.bounds.items() if not letters else ():
        async for letter in topic.read(partition, first, end):
            yield letter


def _letter_json(letter: DeadLetter) -> str:
    """Return a dead letter as one line of JSON.

    Timestamps are ms since the epoch; key, body and headers are as in `headrace kafka consume --json`.
    """
    record, source = letter.record, letter.provenance
    line: dict[str, Any] = {"partition": record.partition, "offset": record.offset}
    line |= {"timestamp": record.timestamp, "key": readable(record.key), "body": readable(record.value)}
    line["headers"] = [[name, readable(value)] for name, value in letter.headers]
    return json.dumps(line | {"provenance": source and asdict(source)})


def _letter_row(letter: DeadLetter) -> tuple[str, str, str, str, str]:
    """Return the cells of a dead letter: place, time, source, attempts, the error's line that names it."""
    source = letter.provenance
    when = _time(letter.record.timestamp)
    if source is None:
        return letter.place, when, "-", "-", "(it doesn't say where it comes from)"
    origin = f"{source.topic}/{source.partition}/{source.offset}"
    return letter.place, when, printable(origin), str(source.attempts), printable(in_one_line(source.error))


def _letter_lines(letter: DeadLetter) -> Iterator[str]:
    """Yield the lines that show all of a dead letter."""
    record, source = letter.record, letter.provenance
    yield f"record    {letter.place}"
    yield f"time      {_time(record.timestamp)}"
    if source is not None:
        yield f"source    {printable(source.topic)}/{source.partition}/{source.offset}"
        yield f"function  {printable(source.function)}"
        yield f"attempts  {source.attempts}"
        yield "error:"
        yield from (f"    {printable(line)}" for line in source.error.splitlines())
    for name, value in letter.headers:
        yield from _block(f"header {printable(name)}", value)
    yield from _block("key", record.key)
    yield from _block("body", record.value)


def _block(title: str, data: bytes | None) -> Iterator[str]:
    """Yield a title and the data: as text where it is some, else in hex."""
    if data is None:
        yield f"{title}: none"
        return
    yield f"{title}: {len(data)} bytes"
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    # What a terminal would obey is shown in hex, as is data of line ends alone, which would show nothing.
    if not all(line.replace("\t", " ").isprintable() for line in lines) or (data and not lines):
        lines = [data[at : at + _HEX_WIDTH].hex(" ", 2) for at in range(0, len(data), _HEX_WIDTH)]
    yield from (f"    {line}" for line in lines)


def _time(timestamp: int) -> str:
    # Kafka's -1: no time.
    if timestamp < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(" ", "milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):  # producers may write any number
        return f"{timestamp} ms"
