"""Access of commands to the admin server of a running function: its options, token and requests."""

import json
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import click

from headrace.runtime.admin.token import TOKEN_VARIABLE, checked_token, find_token, token_header
from headrace.runtime.errors import HeadraceError, UsageError, printable
from headrace.runtime.web.addresses import host_in_url, is_loopback

_ANSWER_SECONDS = 30.0


def _checked_url(_context: click.Context, _option: click.Parameter, admin: str) -> str:
    """Return the URL without a slash at its end. Raises UsageError."""
    try:
        url = urlsplit(admin)
        # `port` raises ValueError for what is no port.
        is_url = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise UsageError(
            f"--admin has {admin!r}, which is no URL; expected one such as http://127.0.0.1:8081"
        )
    return admin.rstrip("/")


admin_option = click.option(
    "--admin",
    envvar="HEADRACE_ADMIN",
    default="http://127.0.0.1:8081",
    show_default=True,
    show_envvar=True,
    metavar="URL",
    callback=_checked_url,
    help="The admin server of the running function.",
)


def problem_of(answer: Any) -> str:
    """Return why an admin server hasn't done what it was asked, in one line; "" where it doesn't say."""
    problem = answer.get("problem") if isinstance(answer, dict) else None
    return printable(str(problem)) if problem else ""


def not_an_admin_server(admin: str) -> HeadraceError:
    """Return the error for an answer that no admin server gives."""
    return HeadraceError(
        f"what answers at {admin} is no admin server of a running function: --admin names another one"
    )


async def ask_admin(
    admin: str, method: Literal["GET", "POST"], path: str, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Ask an admin server; return the HTTP status and the parsed JSON body.

    Raises HeadraceError where nobody answers, or the body is no JSON.
    """
    timeout = aiohttp.ClientTimeout(_ANSWER_SECONDS)
    # A POST has to be JSON: the admin server refuses other types, which pages of other sites could send.
    body: dict[str, str] | None = {} if method == "POST" else None
    try:
        # Redirects aren't followed: the token would go to wherever they lead.
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                method, admin + path, json=body, headers=headers, allow_redirects=False
            ) as response,
        ):
            # An admin server says everything in JSON, a proxy in front of it seldom does.
            if response.status == 401 and response.content_type != "application/json":
                raise UsageError(
                    f"{admin} asks for a sign-in that is none of Headrace's: a proxy's? --admin takes "
                    "http://USER:PASSWORD@HOST:PORT, and HEADRACE_ADMIN too, which nobody else can read"
                )
            return response.status, json.loads(await response.read())
    except TimeoutError:
        raise HeadraceError(f"the admin server at {admin} did not answer in {_ANSWER_SECONDS:g} s") from None
    except aiohttp.ClientConnectorError as error:
        raise HeadraceError(
            f"no running function has its admin server at {admin} ({error.os_error.strerror or error}): "
            "`headrace run` logs the address; --admin or HEADRACE_ADMIN names another one"
        ) from None
    # Anything may answer at a mistyped address, JSON included that nests too deep for Python.
    except (aiohttp.ClientError, ValueError, RecursionError):
        raise not_an_admin_server(admin) from None


class NoSuchFunctionError(HeadraceError):
    """No function of that name runs there, or none that is called over HTTP."""

    exit_code = 4


async def function_url(admin: str, name: str) -> str:
    """Return the URL of a running function's http trigger, to be called from here. Raises HeadraceError."""
    status, answer = await ask_admin(admin, "GET", "/api/status")
    try:
        functions = [printable(str(function)) for function in answer["functions"]]
        rows = [row for replica in answer["replicas"] for row in replica["triggers"]]
        urls = {printable(str(row["function"])): row["url"] for row in rows if "url" in row}
    except (KeyError, TypeError):
        raise not_an_admin_server(admin) from None
    if status != 200:
        raise not_an_admin_server(admin)
    if name not in urls:
        raise _not_there(admin, name, functions, sorted(urls), is_starting=not rows)
    if urls[name] is None:
        raise HeadraceError(f"function {name} is starting: its http trigger doesn't listen yet")
    return _from_here(name, str(urls[name]), admin)


def _not_there(
    admin: str, name: str, functions: list[str], called: list[str], *, is_starting: bool
) -> HeadraceError:
    if name in functions and is_starting:
        return HeadraceError(f"function {name} is starting: its triggers aren't there yet")
    what = f"function {name} has no http trigger" if name in functions else f"no function {name} runs"
    return NoSuchFunctionError(
        f"{what} at {admin}; those that can be called there: {', '.join(called) or 'none'}"
    )


def _from_here(name: str, url: str, admin: str) -> str:
    """Return where the function is reached from here: where it listens everywhere, at the admin's host.

    Raises HeadraceError.
    """
    try:
        listening = urlsplit(url)
        host, port = listening.hostname, listening.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise not_an_admin_server(admin)
    admin_host = urlsplit(admin).hostname or ""
    if is_loopback(admin_host):  # the function runs on this machine
        return f"http://{host_in_url(host)}:{port}"
    if is_loopback(host):
        raise HeadraceError(
            f"function {name} listens at {url}, which only its own machine can reach: call it there, or "
            "give its http trigger host: 0.0.0.0"
        )
    return f"http://{host_in_url(host, everywhere=admin_host)}:{port}"


token_option = click.option(
    "--admin-token",
    envvar=TOKEN_VARIABLE,
    default="",
    show_envvar=True,
    metavar="TOKEN",
    help="The running function's. Whoever runs it on this machine needs none: it is found.",
)


def auth_headers(admin: str, token: str) -> dict[str, str]:
    """Return headers with the token given, else this user's own. Raises UsageError for what is no token."""
    return token_header(checked_token(token.strip(), "--admin-token") or _own_token(admin))


def _own_token(admin: str) -> str:
    """Return the token that this user's run keeps in a file; "" for another machine."""
    return find_token(admin) if is_loopback(urlsplit(admin).hostname or "") else ""
