"""Tokens for OAUTHBEARER, fetched by OAuth's client-credentials flow (RFC 6749, 4.4)."""

import asyncio
import base64
import json
import time
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import Request, urlopen

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError

_ANSWER_SECONDS = 10.0
_EARLY_SECONDS = 10.0  # a token that is about to expire is asked for anew
_REFUSED = (400, 401, 403)


class TokenRefusedError(AuthenticationFailedError):  # type: ignore[misc]  # aiokafka has no types
    """The token server is there and gives no token. The message is one line, without any secret."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Access tokens of one client, kept until shortly before they expire.

    All its connections share one request for the next token.
    """

    def __init__(self, token_url: str, client_id: str, client_secret: str, scopes: tuple[str, ...]) -> None:
        self._ask = partial(_ask, token_url, client_id, client_secret, scopes)
        self._token = ""
        self._expires_at = 0.0
        self._asking = asyncio.Lock()

    async def token(self) -> str:
        """Return a token for a new connection.

        Raises TokenRefusedError, or KafkaConnectionError where nobody answers.
        """
        # Connections that are made at the same time share one token.
        async with self._asking:
            if time.monotonic() >= self._expires_at:
                asked_at = time.monotonic()
                # On a thread: urllib blocks, and this loop has heartbeats to send.
                answer = await asyncio.to_thread(self._ask)
                self._token = answer["access_token"]
                # Counted from the question: the token was made later, so it lives that long at least.
                self._expires_at = asked_at + _lifetime_seconds(answer) - _EARLY_SECONDS
            return self._token


def _lifetime_seconds(answer: dict[str, Any]) -> float:
    try:
        return float(answer.get("expires_in", 0))
    except (TypeError, ValueError):
        return 0.0  # then it serves one connection


def _ask(token_url: str, client_id: str, client_secret: str, scopes: tuple[str, ...]) -> dict[str, Any]:
    """Ask as Go's client does: with name and secret in a header, then, where that is refused, as fields."""
    form = {"grant_type": "client_credentials"}
    if scopes:
        form["scope"] = " ".join(scopes)
    # Each encoded as in a form, as RFC 6749 (2.3.1) asks for: either may have a colon.
    pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    header = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    fields = {"client_id": client_id, "client_secret": client_secret}
    try:
        return _post(token_url, form, header)
    except TokenRefusedError:
        return _post(token_url, form | fields, {})


def _post(url: str, form: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
    request = Request(url, urlencode(form).encode(), headers)  # noqa: S310 - http or https: the setting is checked
    try:
        with urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310 - as above
            answer = json.loads(response.read())
    except HTTPError as error:
        error.close()  # it is the response, too
        said = f"{url} refuses a token ({error.code}): check sasl.oauth.clientID, clientSecret and scopes"
        raise (TokenRefusedError if error.code in _REFUSED else KafkaConnectionError)(said) from None
    except OSError as error:
        raise KafkaConnectionError(
            f"{url}, which sasl.oauth.tokenURL names, doesn't answer: {error}"
        ) from None
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise TokenRefusedError(f"{url} answers without an access_token: check sasl.oauth.tokenURL")
    return answer
