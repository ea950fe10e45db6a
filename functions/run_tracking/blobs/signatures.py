"""Signed upload addresses of the frontier: each lets a client put one blob, for an hour."""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

VALID_SECONDS = 3600
UPLOADS = "/api/v1/rest/artifacts/upload/"
"""Path of uploads at the frontier, followed by the key."""


class Signatures:
    """Signs and checks addresses with a secret (HMAC-SHA256) that lies in the folder, shared by its users."""

    def __init__(self, folder: Path) -> None:
        self._secret = _secret_in(folder)

    def sign(self, base_url: str, key: str, content_type: str, most_bytes: int) -> str:
        """Return the whole address, which accepts at most `most_bytes`."""
        expires = int(time.time()) + VALID_SECONDS
        signature = self._of(key, content_type, expires, most_bytes)
        query = {"expires": expires, "most": most_bytes, "signature": signature}
        return f"{base_url}{UPLOADS}{quote(key)}?{urlencode(query)}"

    def most_bytes(self, key: str, content_type: str, query: Mapping[str, str]) -> int | None:
        """Return how many bytes an address accepts; None if it isn't ours, not for that, or expired."""
        expires, most = (_number(query.get(name, "")) for name in ("expires", "most"))
        if expires is None or most is None:
            return None
        # The type is signed too: an address for a picture takes no page of HTML.
        own = self._of(key, content_type, expires, most)
        # It takes as long wherever they differ, so that nobody can guess a signature letter by letter.
        is_ours = hmac.compare_digest(own.encode(), query.get("signature", "").encode())
        return most if is_ours and time.time() < expires else None

    def _of(self, key: str, content_type: str, expires: int, most_bytes: int) -> str:
        signed = "\n".join(("PUT", key, content_type, str(expires), str(most_bytes)))
        return hmac.new(self._secret, signed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _secret_in(folder: Path) -> bytes:
    """Return the folder's secret, which the first caller makes. Every caller reads it whole."""
    path = folder / ".secret"
    own = folder / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
    if not path.exists():
        with os.fdopen(os.open(own, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())  # an empty secret after a power cut would be known to all
        # A link, not a rename: of two workers that make the secret at once, the second must not replace it.
        with suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
    return path.read_bytes()
