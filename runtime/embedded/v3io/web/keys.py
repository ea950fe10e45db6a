"""Who may ask: whoever has the access key, or everybody where there is none."""

import base64
import binascii
import hmac
import re
from collections.abc import Iterator, Mapping

from headrace.runtime.embedded.v3io.errors import ApiError

VARIABLE = "V3IO_ACCESS_KEY"
"""Of the server's environment, with the key that clients have to show: everybody sees a command line."""

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)")


class AccessKey:
    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def check(self, headers: Mapping[str, str]) -> None:
        """ApiError for who shows another key, or none."""
        if self._key and not any(hmac.compare_digest(self._key, shown) for shown in _shown_keys(headers)):
            raise ApiError(401, -13, "Permission denied: send the access key as X-v3io-session-key")


def _shown_keys(headers: Mapping[str, str]) -> Iterator[bytes]:
    """All that may be the key: a header of its own, a password, an AWS credential."""
    yield headers.get("X-v3io-session-key", "").encode(errors="replace")
    authorization = headers.get("Authorization", "")
    if authorization[:6].lower() == "basic ":
        yield _password(authorization[6:])
    elif found := _CREDENTIAL.search(authorization):
        yield found[1].encode(errors="replace")


def _password(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""
