"""`headrace partition`: what an operator may do to a partition that has halted."""

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import click

from headrace.runtime.errors import HeadraceError, UsageError, printable
from headrace.runtime.processor.admin.server import NAME, Action, NotHaltedError, is_loopback
from headrace.runtime.processor.admin.token import TOKEN_VARIABLE, checked_token, token_header
from headrace.runtime.processor.admin.token_file import find_token

_ANSWER_SECONDS = 30.0
_PLACE = re.compile(rf"({NAME})/([0-9]{{1,9}})")


class NoSuchPartitionError(HeadraceError):
    """No replica of the function has the partition."""

    exit_code = 4


class TopicPartition(click.ParamType[tuple[str, int]]):
    """TOPIC/PARTITION, as in orders/3."""

    name = "topic/partition"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        found = _PLACE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not TOPIC/PARTITION, as in orders/3", param, ctx)
        return found[1], int(found[2])


_place = click.argument("place", metavar="TOPIC/PARTITION", type=TopicPartition())
_admin = click.option(
    "--admin",
    envvar="HEADRACE_ADMIN",
    default="http://127.0.0.1:8081",
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="The admin server of the running function.",
)


_token = click.option(
    "--admin-token",
    envvar=TOKEN_VARIABLE,
    default="",
    show_envvar=True,
    metavar="TOKEN",
    help="The running function's. Whoever runs it on this machine needs none: it is found.",
)


@click.group()
def partition() -> None:
    """Move a partition on that has halted at a failed record.

    \b
    Exit codes: 1 the running function doesn't answer, 2 a mistake in the command or its token,
    4 it doesn't have the partition, 5 the partition is not halted.
    """


@partition.command()
@_place
@_admin
@_token
def retry(place: tuple[str, int], admin: str, admin_token: str) -> None:
    """Deliver the failed record once more, now."""
    _act(admin, admin_token, "retry", place)


@partition.command()
@_place
@_admin
@_token
def skip(place: tuple[str, int], admin: str, admin_token: str) -> None:
    """Give the failed record up, and go on with the next one."""
    _act(admin, admin_token, "skip", place)


def _act(admin: str, token: str, action: Action, place: tuple[str, int]) -> None:
    topic, number = place
    path = f"/api/partitions/{topic}/{number}/{action}"
    admin = _checked_url(admin)
    headers = token_header(checked_token(token.strip(), "--admin-token") or _own_token(admin))
    status, body = asyncio.run(_post(admin, path, headers))
    try:
        answer = json.loads(body)
        found = answer["done"] if status == 200 else answer["problem"]
    except (ValueError, KeyError, TypeError):
        raise _somebody_else(admin) from None
    if status != 200:
        kinds = {401: UsageError, 404: NoSuchPartitionError, 409: NotHaltedError}
        raise kinds.get(status, HeadraceError)(found)
    for line in found:
        click.echo(printable(line))


def _own_token(admin: str) -> str:
    """What this user's run keeps in a file; never for another machine."""
    return find_token(admin) if is_loopback(urlsplit(admin).hostname or "") else ""


def _somebody_else(admin: str) -> HeadraceError:
    return HeadraceError(
        f"what answers at {admin} is no admin server of a running function: --admin names another one"
    )


def _checked_url(admin: str) -> str:
    try:
        url = urlsplit(admin)
        is_url = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise UsageError(
            f"--admin has {admin!r}, which is no URL; expected one such as http://127.0.0.1:8081"
        )
    return admin.rstrip("/")


async def _post(admin: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """The HTTP status and the body. Raises HeadraceError where there are none."""
    timeout = aiohttp.ClientTimeout(_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(admin + path, json={}, headers=headers, allow_redirects=False) as response,
        ):
            return response.status, await response.read()
    except TimeoutError:
        raise HeadraceError(f"the admin server at {admin} did not answer in {_ANSWER_SECONDS:g} s") from None
    except aiohttp.ClientConnectorError as error:
        raise HeadraceError(
            f"no running function has its admin server at {admin} ({error.os_error.strerror or error}): "
            "`headrace run` logs the address; --admin or HEADRACE_ADMIN names another one"
        ) from None
    except (aiohttp.ClientError, ValueError):
        raise _somebody_else(admin) from None
