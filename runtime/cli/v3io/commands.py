"""`headrace v3io`: a server to try things on, and streams on any."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.runtime.cli.records.columns import Columns, show_columns
from headrace.runtime.cli.records.options import as_json_option
from headrace.runtime.cli.v3io.groups import lag, seek
from headrace.runtime.cli.v3io.options import DEFAULT_PORT, NewStreamParam, StreamParam, web_api_option
from headrace.runtime.cli.v3io.records import get, put
from headrace.runtime.errors import BrokerError
from headrace.runtime.processor.stopping import until_signal
from headrace.runtime.v3io import streams as v3io_streams
from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.streams import FoundStream, find_streams

_RETENTION_HOURS = 24


@click.group()
def v3io() -> None:
    """A v3io server, and hands on it or any other one."""


for _command in (put, get, lag, seek):
    v3io.add_command(_command)


@v3io.command()
@click.option("--port", default=DEFAULT_PORT, show_default=True, help="0 takes a free one.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep what is put in this folder; without it that goes when the server stops.",
)
@click.option("--stream", "streams", type=NewStreamParam(), multiple=True, help="Create a stream.")
@as_json_option
def up(port: int, data: Path | None, streams: Sequence[tuple[StreamPath, int]], as_json: bool) -> None:
    """Run a v3io web API here until Ctrl-C: streams, items and objects. It speaks no TLS."""
    made = {str(stream): shards for stream, shards in streams}
    until_signal(_up(port, made, data, as_json))


@v3io.command(name="streams")
@click.argument("container", default="bigdata")
@web_api_option
@click.option("--create", type=NewStreamParam(), multiple=True, help="Create, then list.")
@click.option("--retention", default=_RETENTION_HOURS, show_default=True, help="Hours, of what is created.")
@click.option("--delete", type=StreamParam(), multiple=True, help="Delete with all of it, then list.")
@as_json_option
def list_streams(  # noqa: PLR0913, PLR0917 one parameter per option
    container: str,
    access: V3ioAccess,
    create: Sequence[tuple[StreamPath, int]],
    retention: int,
    delete: Sequence[StreamPath],
    as_json: bool,
) -> None:
    """List the streams of CONTAINER; create or delete some first."""
    found = asyncio.run(_streams(access, container, create, retention, delete))
    if as_json:
        rows = [
            {"stream": str(it.stream), "shards": it.shard_count, "hours": it.retention_hours} for it in found
        ]
        click.echo(json.dumps(rows))
        return
    shown = [(str(it.stream), str(it.shard_count), f"{it.retention_hours} h") for it in found]
    show_columns(Columns(("stream", "shards", "kept for"), shown))


async def _streams(
    access: V3ioAccess,
    container: str,
    create: Sequence[tuple[StreamPath, int]],
    retention: int,
    delete: Sequence[StreamPath],
) -> list[FoundStream]:
    async with V3ioClient(access) as client:
        for stream, shards in create:
            await v3io_streams.create(client, stream, shards, retention)
        for stream in delete:
            await v3io_streams.delete(client, stream)
        return await find_streams(client, container)


async def _up(port: int, streams: dict[str, int], data: Path | None, as_json: bool) -> None:
    # Only this command needs the development server: nothing of the core imports it.
    from headrace.runtime.embedded.v3io.server import EmbeddedV3io

    began = time.monotonic()
    async with EmbeddedV3io(data, port=port) as server:
        # Before the address is told: whoever waits for that line may use the streams at once.
        if streams:
            await server.create_streams(streams)
        if as_json:
            click.echo(json.dumps({"url": server.url, "pid": server.pid}))
        else:
            kept = f"what is put is kept in {data}" if data else "what is put goes when it stops"
            click.echo(f"v3io at {server.url} ({time.monotonic() - began:.1f} s)")
            click.echo(f"{kept}; Ctrl-C stops it")
        # Ctrl-C cancels this wait: only a server that ends by itself gets past it.
        why = await server.wait()
        raise BrokerError(f"the server at {server.url} ended by itself: {why}")
