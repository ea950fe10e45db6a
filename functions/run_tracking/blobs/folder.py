"""Blob store in a folder that all workers of the function see."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from headrace.functions.run_tracking.blobs.signatures import Signatures
from headrace.functions.run_tracking.blobs.storage_budget import UNFINISHED, StorageBudget
from headrace.functions.run_tracking.blobs.store import BlobError, FullError, Upload, check_size
from headrace.functions.run_tracking.messages.validation import check_blob_key, is_blob_key
from headrace.functions.run_tracking.settings import BlobBounds

_PART_BYTES = 1024 * 1024
# A quota of the file system (EDQUOT) is to a client the same as a full disk.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FolderStore:
    """Blob store in a folder. Clients upload to the frontier, at signed addresses."""

    def __init__(self, folder: Path, frontier_url: str, bounds: BlobBounds | None = None) -> None:
        """Make the folder if it is missing. Raises BlobError if that fails."""
        self._folder, self._frontier_url = folder, frontier_url
        self._bounds = bounds or BlobBounds()
        self._budget = StorageBudget(folder, self._bounds)
        with _as_blob_error():
            (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
            self.signatures = Signatures(folder)

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        """Sign an address at the frontier. A size that is given is checked against all limits now.

        Without one, the limits are checked as the bytes come. Raises ValueError, TooLargeError, BlobError.
        """
        check_blob_key(key)
        check_size(size_bytes, self._bounds.file_bytes)
        if size_bytes is not None:
            with _as_blob_error():
                self._budget.check(key.partition("/")[0], size_bytes)
        # The signature covers the size, so the client can't send more than was checked here.
        most = self._bounds.file_bytes if size_bytes is None else size_bytes
        return Upload(self.signatures.sign(self._frontier_url, key, content_type, most))

    def read(self, key: str) -> Iterator[bytes] | None:
        """Yield the blob in parts; None if there is none. Raises BlobError."""
        if not is_blob_key(key):
            return None
        try:
            file = self._path(key).open("rb")
        # The last two: the key leads through another blob, or is the folder of other blobs.
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise BlobError(f"{key}: {error.strerror}") from None
        return _parts(file)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs, and the folders that are empty then. Raises BlobError."""
        for key in keys:
            path = self._path(key)
            with _as_blob_error(), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                path.unlink()
            with suppress(OSError):  # stops at the first folder that isn't empty
                # The last parent is left out: it is the store's own folder.
                for folder in path.relative_to(self._folder).parents[:-1]:
                    (self._folder / folder).rmdir()

    def delete_below(self, prefix: str) -> None:
        """Delete all blobs whose keys begin with `prefix`. Raises BlobError."""
        # A prefix by itself is no valid key; with a name behind it the usual check applies.
        path = self._path(f"{prefix}all").parent
        with _as_blob_error(), suppress(FileNotFoundError):
            shutil.rmtree(path)

    def receive(self, key: str, most_bytes: int, size_bytes: int = 0) -> "IncomingBlob":
        """Begin to receive a blob. A `size_bytes` that is known has to fit into the budget at once.

        Raises TooLargeError, and BlobError: FullError where the folder or the disk has no room.
        """
        check_size(size_bytes, most_bytes)
        # A name of its own for each upload, as one key may come twice at once. It lies in the same folder,
        # since a rename is atomic within one file system only.
        path, unfinished = self._path(key), self._folder / UNFINISHED / secrets.token_hex(16)
        run_id = key.partition("/")[0]
        with _as_blob_error():
            self._budget.check(run_id, size_bytes)
            return IncomingBlob(unfinished, path, _Reservation(self._budget, run_id), most_bytes)

    def _path(self, key: str) -> Path:
        check_blob_key(key)
        return self._folder / key


class _Reservation:
    """Bytes and one file reserved in the budget for a blob that is being received. Ends once."""

    def __init__(self, budget: StorageBudget, run_id: str) -> None:
        self._budget, self._run_id, self._size = budget, run_id, 0
        budget.reserve(run_id, 0, 1)
        self._is_open = True

    def grow(self, size: int) -> None:
        self._budget.reserve(self._run_id, size, 0)
        self._size += size

    def commit(self, replaced: int | None) -> None:
        self._is_open = False
        self._budget.commit(self._run_id, self._size, replaced)

    def release(self) -> None:
        if self._is_open:
            self._is_open = False
            self._budget.release(self._run_id, self._size, 1)


class IncomingBlob:
    """A blob that is being received. Nothing of it is visible before `finish`. Methods raise BlobError."""

    def __init__(self, unfinished: Path, path: Path, reservation: _Reservation, most_bytes: int) -> None:
        self._unfinished, self._path, self._reservation = unfinished, path, reservation
        self._most, self._received = most_bytes, 0
        try:
            self._file = unfinished.open("xb")
        except OSError:
            # The caller gets no object whose `end` would release it.
            reservation.release()
            raise

    def write(self, part: bytes) -> None:
        """Append the next part. Raises TooLargeError too."""
        self._received += len(part)
        check_size(self._received, self._most)
        with _as_blob_error():
            self._reservation.grow(len(part))
            self._file.write(part)

    def finish(self) -> None:
        """Make the blob durable and visible; it replaces an earlier one.

        Raises ValueError if the path is a folder's, or lies below another blob.
        """
        with _as_blob_error():
            self._file.flush()
            # Before the rename, so that the name never stands for bytes that a power cut would lose.
            os.fsync(self._file.fileno())
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                # Asked before the rename, after which the old size is gone.
                replaced = _size_of(self._path)
                self._unfinished.replace(self._path)
            except (IsADirectoryError, NotADirectoryError, FileExistsError):
                raise ValueError(
                    "an artifact can't be where a folder is, nor below another artifact"
                ) from None
            self._reservation.commit(replaced)
            for folder in self._path.parents:  # any of them may be new
                _sync_folder(folder)
                # The store's own folder; nothing above it has changed.
                if folder == self._unfinished.parents[1]:
                    break

    def end(self) -> None:
        """Release the file and the reservation; idempotent. A blob that isn't finished is discarded."""
        with suppress(OSError):  # a full disk can't take what is still buffered
            self._file.close()
        self._unfinished.unlink(missing_ok=True)
        self._reservation.release()


def _size_of(path: Path) -> int | None:
    """Return a file's size; None if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(_PART_BYTES):
            yield part


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _as_blob_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = FullError if error.errno in _FULL else BlobError
        raise kind(f"the folder of blobs: {error.strerror or error}") from None
