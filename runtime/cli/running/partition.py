"""`headrace partition`: what an operator may do to a partition that has halted."""

import asyncio
import re
from typing import Any

import click

from headrace.runtime.admin.routes import NAME
from headrace.runtime.admin.status_source import Action, NotHaltedError
from headrace.runtime.cli.running.admin_client import (
    admin_option,
    ask_admin,
    auth_headers,
    not_an_admin_server,
    problem_of,
    token_option,
)
from headrace.runtime.errors import HeadraceError, UsageError, printable

# The path of a v3io stream may have slashes: the number is what is behind the last one.
_PLACE = re.compile(rf"({NAME})/([0-9]{{1,9}})")


class UnknownPartitionError(HeadraceError):
    """No replica of the function has the partition."""

    exit_code = 4


class TopicPartition(click.ParamType[tuple[str, int]]):
    """Parameter TOPIC/PARTITION, as in orders/3."""

    name = "topic/partition"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        found = _PLACE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not TOPIC/PARTITION, as in orders/3", param, ctx)
        return found[1], int(found[2])


_place = click.argument("place", metavar="TOPIC/PARTITION", type=TopicPartition())


@click.group()
def partition() -> None:
    """Move a partition on that has halted at a failed record.

    \b
    Exit codes: 1 the running function doesn't answer, 2 a mistake in the command or its token,
    4 it doesn't have the partition, 5 the partition is not halted.
    """


@partition.command()
@_place
@admin_option
@token_option
def retry(place: tuple[str, int], admin: str, admin_token: str) -> None:
    """Deliver the failed record once more, now."""
    _act(admin, admin_token, "retry", place)


@partition.command()
@_place
@admin_option
@token_option
def skip(place: tuple[str, int], admin: str, admin_token: str) -> None:
    """Give the failed record up, and go on with the next one."""
    _act(admin, admin_token, "skip", place)


def _act(admin: str, token: str, action: Action, place: tuple[str, int]) -> None:
    topic, number = place
    path = f"/api/partitions/{topic}/{number}/{action}"
    status, answer = asyncio.run(ask_admin(admin, "POST", path, auth_headers(admin, token)))
    try:
        done = list(map(str, answer["done"])) if status == 200 else []
    except (KeyError, TypeError):
        raise not_an_admin_server(admin) from None
    if status != 200:
        # Their exit codes tell scripts what is wrong.
        kinds = {401: UsageError, 404: UnknownPartitionError, 409: NotHaltedError}
        raise kinds.get(status, HeadraceError)(problem_of(answer) or str(not_an_admin_server(admin)))
    for line in done:
        click.echo(printable(line))
