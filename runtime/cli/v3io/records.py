"""`headrace v3io put` and `get`: records into a stream, and out of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import click

from headrace.runtime.cli.records.formats import json_line, text_line
from headrace.runtime.cli.records.lines import keyed_line, made_up, paced, stdin_batches
from headrace.runtime.cli.records.options import as_json_option, record_options
from headrace.runtime.cli.v3io.options import StreamParam, web_api_option
from headrace.runtime.kafka.client import RecordToSend
from headrace.runtime.processor.stopping import until_signal
from headrace.runtime.v3io import streams
from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient, V3ioRefusedError
from headrace.runtime.v3io.records import NewRecord, StreamRecord

_READ_RECORDS = 500
_POLL_SECONDS = 0.25


@click.command()
@click.argument("stream", type=StreamParam())
@web_api_option
@click.option("--shard", type=click.IntRange(min=0), help="Default: by partition key, or spread.")
@record_options
@as_json_option
def put(  # noqa: PLR0913, PLR0917 one parameter per option
    stream: StreamPath,
    access: V3ioAccess,
    shard: int | None,
    keyed: bool,
    count: int | None,
    size: int,
    rate: float | None,
    as_json: bool,
) -> None:
    """Put the lines of stdin, or COUNT made-up records of SIZE bytes, into STREAM, such as bigdata/orders."""
    batches = made_up(count, size, rate) if count else stdin_batches(keyed_line if keyed else RecordToSend)
    began = time.monotonic()
    sent = asyncio.run(_put(access, stream, shard, paced(batches, rate)))
    seconds = time.monotonic() - began
    if as_json:
        click.echo(json.dumps({"stream": str(stream), "records": sent, "seconds": round(seconds, 3)}))
    else:
        click.echo(f"put {sent} records into {stream} in {seconds:.1f} s", err=True)


@click.command()
@click.argument("stream", type=StreamParam())
@web_api_option
@click.option("--shard", type=click.IntRange(min=0), help="Default: all.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many; else at Ctrl-C.")
@as_json_option
def get(  # noqa: PLR0913, PLR0917 one parameter per option
    stream: StreamPath, access: V3ioAccess, shard: int | None, start: str, count: int | None, as_json: bool
) -> None:
    """Print the records of STREAM as they come; joins no group and commits nothing."""
    in_form = json_line if as_json else text_line

    def show(number: int, record: StreamRecord) -> None:
        # In the form of a Kafka record, which is printed alike.
        about = SimpleNamespace(
            topic=str(stream),
            partition=number,
            offset=record.sequence,
            timestamp=record.arrived_ms,
            key=record.partition_key.encode() if record.partition_key else None,
            value=record.data,
            headers=[("client-info", record.client_info)] if record.client_info else [],
        )
        click.echo(in_form(about))

    until_signal(_get(access, stream, shard, start, count, show))


async def _put(
    access: V3ioAccess, stream: StreamPath, shard: int | None, batches: AsyncIterator[list[RecordToSend]]
) -> int:
    sent = 0
    async with V3ioClient(access) as client:
        async for lines in batches:
            records = [
                # Partition keys are text here: bytes that are none become the same text each time.
                NewRecord(it.value or b"", (it.key or b"").decode(errors="replace"), shard=shard)
                for it in lines
            ]
            sent += len(await streams.put(client, stream, records))
    return sent


async def _get(  # noqa: PLR0913, PLR0917  # as the command
    access: V3ioAccess,
    stream: StreamPath,
    shard: int | None,
    start: str,
    count: int | None,
    show: Callable[[int, StreamRecord], None],
) -> None:
    async with V3ioClient(access) as client:
        shards = range((await streams.describe(client, stream)).shard_count) if shard is None else [shard]
        locations = {number: await _begin(client, stream, number, start) for number in shards}
        left = float("inf") if count is None else count
        while left > 0:
            has_more = False
            for number, location in locations.items():
                # A shard that had no record at the start is read from its first one.
                where = location or await _begin(client, stream, number, "earliest")
                if not where or left <= 0:
                    continue
                found = await streams.get(client, stream, number, where, int(min(left, _READ_RECORDS)))
                locations[number] = found.next_location
                for record in found.records:
                    show(number, record)
                left -= len(found.records)
                # A shard that has more is read on without a pause.
                has_more |= bool(found.records) and found.behind_count > 0
            await asyncio.sleep(0 if has_more or left <= 0 else _POLL_SECONDS)


async def _begin(client: V3ioClient, stream: StreamPath, shard: int, start: str) -> str:
    """Return a location; empty where the shard has no record yet: all that come are new."""
    try:
        return await streams.seek(client, stream, shard, start.upper())
    except V3ioRefusedError as refused:
        if refused.is_absent:
            return ""
        raise
