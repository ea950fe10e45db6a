"""What commands show an admin server, so that it does what they ask."""

from urllib.parse import urlsplit

import click

from headrace.runtime.processor.admin.token import TOKEN_VARIABLE, checked_token, token_header
from headrace.runtime.processor.admin.token_file import find_token
from headrace.runtime.web.hosts import is_loopback

token_option = click.option(
    "--admin-token",
    envvar=TOKEN_VARIABLE,
    default="",
    show_envvar=True,
    metavar="TOKEN",
    help="The running function's. Whoever runs it on this machine needs none: it is found.",
)


def signed(admin: str, token: str) -> dict[str, str]:
    """Headers with the token given, else this user's own. Raises UsageError for what is none."""
    return token_header(checked_token(token.strip(), "--admin-token") or _own_token(admin))


def _own_token(admin: str) -> str:
    """What this user's run keeps in a file; never for another machine."""
    return find_token(admin) if is_loopback(urlsplit(admin).hostname or "") else ""
