"""Who answers where a broker should, and is none, or not in this way. Pure."""

from enum import Enum
from typing import Self

MAX_BYTES = 1 << 28
"""How large an answer may be: several times what a fetch takes, and less than any text taken for a length."""
_TLS_RECORDS = range(0x14, 0x18)  # change of cipher, alert, handshake, data; then the version, which is 3.x
_TEXTS = {b"HTTP": "is a web server", b"SSH-": "is an SSH server"}
_NOT_TLS = ("WRONG_VERSION", "RECORD_LAYER", "UNEXPECTED_EOF", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")


class TlsHint(Enum):
    """What the setting for TLS has to do with it."""

    NONE = "none"
    MISSING = "missing"
    PERHAPS_MISSING = "perhaps missing"
    UNWANTED = "unwanted"


class NotABrokerError(ConnectionError):
    """The connection is closed. `what` follows the address."""

    def __init__(self, what: str, tls: TlsHint = TlsHint.NONE, where: str = "") -> None:
        super().__init__(f"{where} {what}" if where else what)
        self.what, self.tls, self.where = what, tls, where

    def at(self, where: str) -> Self:
        """The same, once it is known where."""
        return type(self)(self.what, self.tls, where)


class AnswerTooLargeError(NotABrokerError):
    """Whoever answers announces more than any answer is: it is no number, or no broker's."""


class UnreadableAnswerError(NotABrokerError):
    """What came is no answer to what was asked."""


def address(host: object, port: object) -> str:
    """As people write it."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def too_large(size: int) -> AnswerTooLargeError:
    """What an answer says that begins with these four bytes, as a number. They tell who speaks."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first in _TEXTS:
        return AnswerTooLargeError(f"{_TEXTS[first]}, and does not speak Kafka")
    if first[0] in _TLS_RECORDS and first[1] == 3:
        return AnswerTooLargeError("speaks TLS", TlsHint.MISSING)
    why = f"an answer announces {size:,} bytes, of at most {MAX_BYTES:,}"
    return AnswerTooLargeError(f"speaks no Kafka, or only with TLS ({why})", TlsHint.PERHAPS_MISSING)


def silent(seconds: float) -> NotABrokerError:
    """It has said nothing for so long."""
    return NotABrokerError(f"accepts connections and does not speak Kafka: it says nothing for {seconds:g} s")


def closing() -> NotABrokerError:
    """It hangs up without a word."""
    what = "closes connections without an answer: it does not speak Kafka, or only with TLS, or is stopping"
    return NotABrokerError(what, TlsHint.PERHAPS_MISSING)


def handshake_failed(reason: str) -> NotABrokerError | None:
    """What OpenSSL calls it, or nothing where it was hung up on; None where whoever answers speaks TLS."""
    if reason and not any(known in reason for known in _NOT_TLS):
        return None
    return NotABrokerError("does not speak TLS", TlsHint.UNWANTED)
