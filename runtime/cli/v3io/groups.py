"""`headrace v3io lag` and `seek`: how far a consumer group is, and setting it back or forth."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from headrace.runtime.cli.kafka.groups import SeekTarget
from headrace.runtime.cli.records.columns import Columns, show_columns, shown
from headrace.runtime.cli.records.options import as_json_option
from headrace.runtime.cli.v3io.options import StreamParam, web_api_option
from headrace.runtime.errors import printable
from headrace.runtime.v3io.addresses import StreamPath, V3ioAccess
from headrace.runtime.v3io.client import V3ioClient
from headrace.runtime.v3io.group_format import SessionState
from headrace.runtime.v3io.group_offsets import ShardLag, ShardMove, Target, read_lags, seek_group


@click.command()
@click.argument("stream", type=StreamParam())
@click.argument("group")
@web_api_option
@as_json_option
def lag(stream: StreamPath, group: str, access: V3ioAccess, as_json: bool) -> None:
    """Show how far GROUP is behind on each shard of STREAM, such as bigdata/orders, and who has it.

    \b
    Exit codes: 3 the web API doesn't answer or has no such stream, 4 there is no such group.
    """
    sessions, lags = asyncio.run(_lag(access, stream, group))
    total = sum(row.lag for row in lags)
    if as_json:
        shards = [{**asdict(row), "lag": row.lag} for row in lags]
        members = [it.member_id for it in sessions]
        document = {"stream": str(stream), "group": group, "members": members, "lag": total, "shards": shards}
        click.echo(json.dumps(document))
        return
    numbers = [map(shown, (it.shard, it.committed, it.current, it.lag)) for it in lags]
    rows = [(*cells, it.member or "-") for it, cells in zip(lags, numbers, strict=True)]
    show_columns(Columns(("shard", "committed", "last", "lag", "member"), rows))
    count = len(sessions)
    click.echo(
        printable(f"group {group} has {count or 'no'} member{'' if count == 1 else 's'}; lag {total} in all")
    )


@click.command()
@click.argument("stream", type=StreamParam())
@click.argument("group")
@click.argument("shards", type=click.IntRange(min=0), nargs=-1)
@click.option(
    "--to",
    type=SeekTarget(),
    required=True,
    metavar="earliest|latest|SEQUENCE|TIME",
    help="SEQUENCE is that of the next record. A time is ISO 8601, UTC where it names no zone.",
)
@click.option(
    "--session-timeout",
    default=10.0,
    show_default=True,
    help="Seconds after which a member that says nothing is gone: the group's own sessionTimeout.",
)
@web_api_option
@as_json_option
def seek(  # noqa: PLR0913, PLR0917 one parameter per option
    stream: StreamPath,
    group: str,
    shards: Sequence[int],
    to: Target,
    session_timeout: float,
    access: V3ioAccess,
    as_json: bool,
) -> None:
    """Have GROUP go on from elsewhere, on all of STREAM or some SHARDS. Nobody may be in the group.

    Shards without a record stay as they are. What a function's commits said besides the sequence number (acks
    beyond it, attempts) is void from then on.

    \b
    Exit codes: 2 a mistake in the command, 3 the web API doesn't answer or has no such stream,
    5 the group has members.
    """
    moves = asyncio.run(_seek(access, stream, group, shards, to, session_timeout))
    if as_json:
        document = {"stream": str(stream), "group": group, "moves": [asdict(move) for move in moves]}
        click.echo(json.dumps(document))
        return
    rows = [list(map(shown, (it.shard, it.before, it.after))) for it in moves]
    show_columns(Columns(("shard", "before", "after"), rows))


async def _lag(
    access: V3ioAccess, stream: StreamPath, group: str
) -> tuple[Sequence[SessionState], Sequence[ShardLag]]:
    async with V3ioClient(access) as client:
        return await read_lags(client, stream, group)


async def _seek(  # noqa: PLR0913, PLR0917  # as the command
    access: V3ioAccess,
    stream: StreamPath,
    group: str,
    shards: Sequence[int],
    to: Target,
    session_timeout: float,
) -> list[ShardMove]:
    async with V3ioClient(access) as client:
        return await seek_group(client, stream, group, shards, to, session_timeout)
