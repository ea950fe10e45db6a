"""What is asked of a store, whichever it is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Upload:
    """Where a client may PUT the bytes of one key, for an hour."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """To be sent along, besides Content-Type."""


class BlobError(Exception):
    """The store is away, or refuses. One line."""


class BlobStore(Protocol):
    """Keys are `run_id/artifact_path`. All may block, and raise BlobError."""

    def upload(self, key: str, content_type: str) -> Upload:
        """Signed. ValueError for a key that can't be."""

    def read(self, key: str) -> Iterator[bytes] | None:
        """In parts; None where nothing is."""

    def delete(self, keys: Iterable[str]) -> None:
        """What isn't there is deleted already."""

    def delete_below(self, prefix: str) -> None:
        """All whose keys begin with `prefix`, which ends with a slash."""
