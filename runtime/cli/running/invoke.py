"""`headrace invoke`: one event for a running function, over its http trigger, and the answer."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import click
from yarl import URL

from headrace.runtime.cli.running.admin_client import admin_option, function_url
from headrace.runtime.errors import HeadraceError, UsageError, one_line, printable
from headrace.runtime.settings.durations import DurationError, parse_duration

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # of HTTP: a method, a header's name
_FAILED = 5
_MOST_HEAD_BYTES = 1 << 20


class Header(click.ParamType[tuple[str, str]]):
    """Parameter NAME:VALUE, as in X-Who:Ada."""

    name = "name:value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, colon, content = str(value).partition(":")
        # Tabs may stand in a header's value, and line ends may not: those would begin another header.
        if not colon or not _TOKEN.fullmatch(name) or not content.replace("\t", " ").isprintable():
            self.fail(f"{value!r} is not NAME:VALUE, as in X-Who:Ada", param, ctx)
        return name, content.strip()


class Method(click.ParamType[str]):
    """Parameter: a method of HTTP, or a handler's own."""

    name = "method"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _TOKEN.fullmatch(str(value)):
            self.fail(f"{value!r} is no method of HTTP, such as PUT", param, ctx)
        return str(value).upper()


class Seconds(click.ParamType[float]):
    """Parameter: a duration as function.yaml has it."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            # click may hand over what it has converted before.
            seconds = value if isinstance(value, float) else parse_duration(str(value))
        except DurationError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"{value!r} leaves no time for an answer", param, ctx)
        return seconds


@dataclass(frozen=True, slots=True)
class InvokeRequest:
    """The request that is sent. `path` may have a query."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class InvokeAnswer:
    """The whole answer that came back."""

    status: int
    reason: str
    headers: Sequence[tuple[str, str]]
    charset: str
    body: bytes


@click.command()
@click.argument("name")
@click.option("--path", default="/", show_default=True, help="The event's, with a query if it has one.")
@click.option("--method", type=Method(), metavar="METHOD", help="If not given: POST with a body, else GET.")
@click.option("--body", metavar="TEXT", help="The event's body.")
@click.option("--body-file", metavar="FILE", help="A file that has it, or - for stdin.")
@click.option(
    "--content-type",
    metavar="TYPE",
    help="The body's. If not given: application/json for what is JSON, else text/plain.",
)
@click.option("--header", type=Header(), metavar="NAME:VALUE", multiple=True, help="One of the event's.")
@click.option(
    "--timeout",
    type=Seconds(),
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="How long to wait.",
)
@click.option("--raw", is_flag=True, help="Print the answer's body alone, byte for byte.")
@admin_option
def invoke(name: str, admin: str, *, raw: bool, **event: Any) -> None:
    """Call the running function NAME over HTTP, and print what it answers.

    It has to run, and to have an http trigger. `headrace try` calls a handler that doesn't run with a record.

    \b
    Exit codes: 0 a status below 400, 5 one of 400 or above, 1 nobody answers,
    2 a mistake in the command, 4 no such function runs there, or it has no http trigger.
    """
    answer = asyncio.run(_call(name, admin, _request(**event), is_raw=raw))
    shown = answer.body if raw else "".join(f"{line}\n" for line in _shown(answer)).encode()
    click.echo(shown, nl=False)  # bytes are written as they are, in whatever encoding
    if answer.status >= 400:
        sys.exit(_FAILED)


def _request(  # noqa: PLR0913  # one for each option
    *,
    path: str,
    method: str | None,
    body: str | None,
    body_file: str | None,
    content_type: str | None,
    header: Sequence[tuple[str, str]],
    timeout: float,
) -> InvokeRequest:
    """Make the request of the options. Raises UsageError."""
    content = _body(body, body_file)
    has_type = any(given.lower() == "content-type" for given, _ in header)
    if content_type is not None and not content_type.isprintable():
        raise UsageError(f"--content-type has {content_type!r}, which HTTP can't say")
    # A type is made up only for a body that comes without one.
    type_sent = content_type if content is None or has_type else content_type or _type_of(content)
    headers = [*header, *([("Content-Type", type_sent)] if type_sent else [])]
    return InvokeRequest(method or ("GET" if content is None else "POST"), path, headers, content, timeout)


def _body(text: str | None, file: str | None) -> bytes | None:
    if text is not None and file is not None:
        raise UsageError("--body and --body-file are two bodies; give one of them")
    if file is not None:
        return _read(file)
    # Arguments that are no UTF-8 come as surrogates, and go out as the bytes that they were.
    return None if text is None else text.encode(errors="surrogateescape")


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--body-file {file!r} can't be read: {why}") from None


def _type_of(body: bytes) -> str:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "text/plain"
    return "application/json"


async def _call(name: str, admin: str, request: InvokeRequest, *, is_raw: bool) -> InvokeAnswer:
    """Send the request to the function. Raises HeadraceError."""
    address = await function_url(admin, name)
    try:
        url = URL(f"{address}/{request.path.removeprefix('/')}")
    except ValueError as error:
        raise UsageError(f"--path has {request.path!r}, which is no path: {error}") from None
    try:
        # A redirect is the handler's answer: it is shown, not followed.
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(request.timeout_seconds),
                # The request is what its options say: aiohttp adds nothing to it.
                skip_auto_headers=["Accept-Encoding", "Content-Type"],
                auto_decompress=not is_raw,  # raw is byte for byte
                # aiohttp takes 8190 bytes a line if it isn't told otherwise, and a handler's may be longer.
                max_line_size=_MOST_HEAD_BYTES,
                max_field_size=_MOST_HEAD_BYTES,
            ) as session,
            session.request(
                request.method, url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response,
        ):
            body, charset = await response.read(), response.charset or "utf-8"
            headers = list(response.headers.items())
            return InvokeAnswer(response.status, response.reason or "", headers, charset, body)
    except TimeoutError:
        seconds = request.timeout_seconds
        raise HeadraceError(f"{name} at {address} did not answer in {seconds:g} s") from None
    except aiohttp.ClientConnectorError as error:
        why = error.os_error.strerror or error
        raise HeadraceError(f"nobody answers for {name} at {address} ({why})") from None
    except (aiohttp.ClientError, ValueError) as error:
        why = one_line(str(error) or type(error).__name__)
        raise HeadraceError(f"{name} at {address} gave no answer that can be read ({why})") from None


def _shown(answer: InvokeAnswer) -> Iterator[str]:
    """Yield the answer's lines, as nuctl prints them."""
    yield f"{answer.status} {printable(answer.reason)}".rstrip()
    yield from ("", "> Response headers:")
    yield from (f"{printable(name)} = {printable(value)}" for name, value in answer.headers)
    yield from ("", "> Response body:", *map(_printable, _text(answer).splitlines()))


def _text(answer: InvokeAnswer) -> str:
    """Return the answer's body, laid out if it says that it is JSON, and is."""
    content_type = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    media = content_type.partition(";")[0].strip().lower()
    if media == "application/json" or media.endswith("+json"):
        with suppress(ValueError, RecursionError):  # no JSON, whatever its type says: shown as text
            return json.dumps(json.loads(answer.body), indent=4, ensure_ascii=False)
    try:
        return answer.body.decode(answer.charset, errors="backslashreplace")
    except LookupError:  # no charset that anybody knows
        return answer.body.decode(errors="backslashreplace")


def _printable(line: str) -> str:
    """Return a line without what a terminal obeys, but for tabs."""
    return "\t".join(map(printable, line.split("\t")))
