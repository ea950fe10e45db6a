"""Errors for whoever answers in place of a broker, or not in the way that was asked. Pure."""

from enum import Enum
from typing import Self

MAX_BYTES = 1 << 28
"""How large an answer may be: several times what a fetch takes, and less than any text taken for a length."""
_TLS_RECORDS = range(0x14, 0x18)  # change of cipher, alert, handshake, data; then the version, which is 3.x
# The first four bytes that such servers say, which aiokafka reads as a length.
_TEXTS = {b"HTTP": "is a web server", b"SSH-": "is an SSH server"}
# Parts of OpenSSL's names for what comes from a server without TLS.
_NOT_TLS = ("WRONG_VERSION", "RECORD_LAYER", "UNEXPECTED_EOF", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")


class TlsHint(Enum):
    """Advice about the setting for TLS that goes with such an error."""

    NONE = "none"
    MISSING = "missing"
    PERHAPS_MISSING = "perhaps missing"
    UNWANTED = "unwanted"


class NotABrokerError(ConnectionError):
    """The other side isn't a Kafka broker, or speaks otherwise. `what` follows its address.

    The connection is closed.
    """

    def __init__(self, what: str, tls: TlsHint = TlsHint.NONE, where: str = "") -> None:
        super().__init__(f"{where} {what}" if where else what)
        self.what, self.tls, self.where = what, tls, where

    def at(self, where: str) -> Self:
        """Return the same error with the address, once that is known."""
        return type(self)(self.what, self.tls, where)


class AnswerTooLargeError(NotABrokerError):
    """An answer announces more bytes than any has: those are no number, or no broker's."""


class UnreadableAnswerError(NotABrokerError):
    """Bytes came that are no answer to the request."""


def address(host: object, port: object) -> str:
    """Return an address as people write it: host:port, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def too_large(size: int) -> AnswerTooLargeError:
    """Return the error for an answer whose first four bytes are this number: they tell who speaks."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first in _TEXTS:
        return AnswerTooLargeError(f"{_TEXTS[first]}, and does not speak Kafka")
    if first[0] in _TLS_RECORDS and first[1] == 3:
        return AnswerTooLargeError("speaks TLS", TlsHint.MISSING)
    why = f"an answer announces {size:,} bytes, of at most {MAX_BYTES:,}"
    return AnswerTooLargeError(f"speaks no Kafka, or only with TLS ({why})", TlsHint.PERHAPS_MISSING)


def silent(seconds: float) -> NotABrokerError:
    """Return the error for a server that has said nothing for so long."""
    return NotABrokerError(f"accepts connections and does not speak Kafka: it says nothing for {seconds:g} s")


def closing() -> NotABrokerError:
    """Return the error for a server that hangs up without a word."""
    what = "closes connections without an answer: it does not speak Kafka, or only with TLS, or is stopping"
    return NotABrokerError(what, TlsHint.PERHAPS_MISSING)


def handshake_failed(reason: str) -> NotABrokerError | None:
    """Return the error for a failed TLS handshake, or None if the other side does speak TLS.

    `reason` is OpenSSL's name for it, or empty where the other side has hung up.
    """
    if reason and not any(known in reason for known in _NOT_TLS):
        return None
    return NotABrokerError("does not speak TLS", TlsHint.UNWANTED)
