"""What is asked of a store, whichever it is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

MOST_BYTES = 5 * 1024**3
"""Of one blob: what one PUT of S3 takes."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Where a client may PUT the bytes of one key, for an hour."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """To be sent along, besides Content-Type."""


class BlobError(Exception):
    """The store is away, or refuses. One line."""


class FullError(BlobError):
    """The store has no room for it now."""


class TooLargeError(Exception):
    """The blob, or its run's blobs with it, are more than may be. One line."""


class BlobStore(Protocol):
    """Keys are `run_id/artifact_path`. All may block, and raise BlobError."""

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        """Signed, for so many bytes where that is known. ValueError for what is no key; TooLargeError."""

    def read(self, key: str) -> Iterator[bytes] | None:
        """In parts; None where nothing is."""

    def delete(self, keys: Iterable[str]) -> None:
        """What isn't there is deleted already."""

    def delete_below(self, prefix: str) -> None:
        """All whose keys begin with `prefix`, which ends with a slash."""


def check_size(size_bytes: int | None, most_bytes: int) -> None:
    """Raises TooLargeError for a blob of more."""
    if size_bytes is not None and size_bytes > most_bytes:
        raise TooLargeError(f"a blob of {size_bytes} bytes: at most {most_bytes}, BLOBS_MAX_BYTES_PER_FILE")
