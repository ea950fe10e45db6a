"""Contract of a blob store, and its errors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

MOST_BYTES = 5 * 1024**3
"""Largest blob: what S3 accepts in one PUT, 5 GiB."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Address at which a client may PUT the bytes of one key, for an hour."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to send along, besides Content-Type."""


class BlobError(Exception):
    """The store can't be reached, or refuses. The message is one line."""


class FullError(BlobError):
    """The store has no room now."""


# Not a BlobError: those may pass, so the control service retries them.
class TooLargeError(Exception):
    """The blob, or its run's blobs together, are more than the limits allow. The message is one line."""


class BlobStore(Protocol):
    """Storage of blobs under keys `run_id/artifact_path`. All methods may block, and raise BlobError."""

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        """Return a signed address for one blob, of exactly `size_bytes` where that is given.

        Raises ValueError for an invalid key, TooLargeError for a size over the limits.
        """

    def read(self, key: str) -> Iterator[bytes] | None:
        """Return the blob in parts; None if there is none."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs. A key without a blob is no error."""

    def delete_below(self, prefix: str) -> None:
        """Delete all blobs whose keys begin with `prefix`, which ends with a slash."""


def check_size(size_bytes: int | None, most_bytes: int) -> None:
    """Raise TooLargeError for a blob of more than `most_bytes`."""
    if size_bytes is not None and size_bytes > most_bytes:
        raise TooLargeError(f"a blob of {size_bytes} bytes: at most {most_bytes}, BLOBS_MAX_BYTES_PER_FILE")
