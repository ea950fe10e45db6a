"""Ids of topics, as they are on the wire."""

from io import BytesIO

from aiokafka.protocol.abstract import AbstractType

_BYTES = 16


class Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka is untyped
    """16 bytes as they are."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Itself."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """The next 16. Raises ValueError."""
        if len(found := data.read(_BYTES)) < _BYTES:
            raise ValueError("an id that is cut off")
        return found
