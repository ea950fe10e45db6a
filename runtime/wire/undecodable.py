"""Records that are there and can't be decoded."""

from typing import Any, NoReturn


class UndecodableError(Exception):
    """Its bytes are no record, though their checksum is right."""


class UndecodableRecord:
    """Stands for such a record, in a worker and in a processor: asking what it holds says why."""

    def __init__(self, offset: int, why: Exception) -> None:
        self.offset = offset
        self._why = why

    @property
    def why(self) -> str:
        """In one line."""
        return f"the record can't be decoded ({self._why!r})"

    def _raise(self) -> NoReturn:
        raise UndecodableError(self.why)

    _unknown: Any = property(_raise)
    timestamp = timestamp_type = key = value = headers = _unknown
