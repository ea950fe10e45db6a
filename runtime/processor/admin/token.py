"""Who may move a halted partition: whoever has the token. Others of this machine reach the server too."""

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.runtime.errors import UsageError

TOKEN_VARIABLE = "HEADRACE_ADMIN_TOKEN"  # noqa: S105  # a name, no secret


@dataclass(frozen=True, slots=True)
class AdminToken:
    """What a request that changes something has to carry; empty: nothing. `is_made_up`: to be told."""

    text: str = field(default="", repr=False)
    is_made_up: bool = False

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Why these headers don't do, and what would; empty where they do."""
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        theirs = given.strip().encode(errors="surrogateescape") if scheme.lower() == "bearer" else b""
        # In the same time whatever is given: how long it takes says nothing of the token.
        if not self.text or hmac.compare_digest(theirs, self.text.encode()):
            return ""
        what = "another token than this" if given else "no token"
        return (
            f"the request has {what}: give the running function's, from its {TOKEN_VARIABLE} or what its log "
            f"names, in {TOKEN_VARIABLE} or --admin-token (over HTTP as Authorization: Bearer TOKEN); "
            "commands of the user that runs it find it by themselves"
        )


NO_TOKEN = AdminToken()


def token_header(token: str) -> dict[str, str]:
    """For a request; none without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def take_token() -> AdminToken:
    """The environment's, which loses it: handlers inherit that. Else one made up. Raises UsageError."""
    if given := os.environ.pop(TOKEN_VARIABLE, "").strip():
        return AdminToken(checked_token(given, TOKEN_VARIABLE))
    return AdminToken(secrets.token_urlsafe(24), is_made_up=True)


def checked_token(token: str, source: str) -> str:
    """What a header can hold. Raises UsageError, which doesn't repeat it."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(
            f"{source} holds something that is no token; expected ASCII letters, digits and signs"
        )
    return token
