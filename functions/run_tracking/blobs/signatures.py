"""Addresses at which a client may put one blob for a while: signed, so that nobody makes his own."""

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
"""Where the frontier takes them, followed by the key."""


class Signatures:
    """By a secret that all who have the folder share."""

    def __init__(self, folder: Path) -> None:
        self._secret = _secret_in(folder)

    def sign(self, base_url: str, key: str, content_type: str, most_bytes: int) -> str:
        """The whole address. More than `most_bytes` may not come there."""
        expires = int(time.time()) + VALID_SECONDS
        signature = self._of(key, content_type, expires, most_bytes)
        query = {"expires": expires, "most": most_bytes, "signature": signature}
        return f"{base_url}{UPLOADS}{quote(key)}?{urlencode(query)}"

    def most_bytes(self, key: str, content_type: str, query: Mapping[str, str]) -> int | None:
        """How many may come there; None where the address isn't ours, not for that, or over."""
        expires, most = (_number(query.get(name, "")) for name in ("expires", "most"))
        if expires is None or most is None:
            return None
        own = self._of(key, content_type, expires, most)
        is_ours = hmac.compare_digest(own.encode(), query.get("signature", "").encode())
        return most if is_ours and time.time() < expires else None

    def _of(self, key: str, content_type: str, expires: int, most_bytes: int) -> str:
        signed = "\n".join(("PUT", key, content_type, str(expires), str(most_bytes)))
        return hmac.new(self._secret, signed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _secret_in(folder: Path) -> bytes:
    """Made once: whoever comes second finds the first one's, whole."""
    path = folder / ".secret"
    own = folder / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
    if not path.exists():
        with os.fdopen(os.open(own, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())  # or after a power cut it may be empty, which everybody knows
        with suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
    return path.read_bytes()
