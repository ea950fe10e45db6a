"""Options of all commands that talk to a web API: where it is, and how to get in."""

import functools
import os
from collections.abc import Callable
from typing import Any

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.v3io.addresses import (
    V3IO_KEY_VARIABLE,
    V3IO_OPTION,
    V3IO_VARIABLE,
    StreamPath,
    V3ioAccess,
    checked_web_api,
)

DEFAULT_PORT = 8088
_OPTION = click.option(
    V3IO_OPTION,
    "url",
    envvar=V3IO_VARIABLE,
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help=f"Where the web API is; the access key is what {V3IO_KEY_VARIABLE} says.",
)


def web_api_option(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command this option; it gets one argument for it, `access`: a V3ioAccess."""

    @functools.wraps(command)
    def with_access(url: str, **given: Any) -> None:
        try:
            # The key comes by the environment alone: everybody on the machine can read command lines.
            access = V3ioAccess(checked_web_api(url), os.environ.get(V3IO_KEY_VARIABLE, ""))
        except ValueError as error:
            raise UsageError(f"{V3IO_OPTION} {error}") from None
        command(access=access, **given)

    return _OPTION(with_access)


class StreamParam(click.ParamType[StreamPath]):
    """CONTAINER/PATH, as in bigdata/orders."""

    name = "container/path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StreamPath:
        try:
            return StreamPath.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NewStreamParam(click.ParamType[tuple[StreamPath, int]]):
    """CONTAINER/PATH:SHARDS, as in bigdata/orders:8."""

    name = "container/path:shards"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[StreamPath, int]:
        # From the right: the path of a stream may have colons, too.
        text, _, shards = str(value).rpartition(":")
        if not shards.isdecimal() or int(shards) < 1:
            self.fail(f"{value!r} is not container/path:shards, as in bigdata/orders:8", param, ctx)
        return StreamParam().convert(text, param, ctx), int(shards)
