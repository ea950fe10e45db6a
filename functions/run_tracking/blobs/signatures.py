"""Addresses at which a client may put one blob for a while: signed, so that nobody makes his own."""

import hashlib
import hmac
import os
import secrets
import time
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

    def sign(self, base_url: str, key: str, content_type: str) -> str:
        """The whole address."""
        expires = int(time.time()) + VALID_SECONDS
        query = {"expires": expires, "signature": self._of(key, content_type, expires)}
        return f"{base_url}{UPLOADS}{quote(key)}?{urlencode(query)}"

    def is_valid(self, key: str, content_type: str, expires: str, signature: str) -> bool:
        """Whether it is ours, for that, and not over yet."""
        if not (expires.isascii() and expires.isdigit() and len(expires) < 20):
            return False
        is_ours = hmac.compare_digest(self._of(key, content_type, int(expires)).encode(), signature.encode())
        return is_ours and time.time() < int(expires)

    def _of(self, key: str, content_type: str, expires: int) -> str:
        signed = "\n".join(("PUT", key, content_type, str(expires)))
        return hmac.new(self._secret, signed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


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
