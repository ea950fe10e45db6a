"""A folder that all parts of the function see."""

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
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FolderStore:
    """Keeps BlobStore. Clients put blobs through the frontier, at addresses that are signed here."""

    def __init__(self, folder: Path, frontier_url: str, bounds: BlobBounds | None = None) -> None:
        """Raises BlobError where the folder can't be made."""
        self._folder, self._frontier_url = folder, frontier_url
        self._bounds = bounds or BlobBounds()
        self._room = StorageBudget(folder, self._bounds)
        with _as_blob_error():
            (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
            self.signatures = Signatures(folder)

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        """As BlobStore says it."""
        check_blob_key(key)
        check_size(size_bytes, self._bounds.file_bytes)
        if size_bytes is not None:
            with _as_blob_error():
                self._room.check(key.partition("/")[0], size_bytes)
        most = self._bounds.file_bytes if size_bytes is None else size_bytes
        return Upload(self.signatures.sign(self._frontier_url, key, content_type, most))

    def read(self, key: str) -> Iterator[bytes] | None:
        """As BlobStore says it."""
        if not is_blob_key(key):
            return None
        try:
            file = self._path(key).open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise BlobError(f"{key}: {error.strerror}") from None
        return _parts(file)

    def delete(self, keys: Iterable[str]) -> None:
        """As BlobStore says it."""
        for key in keys:
            path = self._path(key)
            with _as_blob_error(), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                path.unlink()
            with suppress(OSError):  # the first that something else is in
                for folder in path.relative_to(self._folder).parents[:-1]:
                    (self._folder / folder).rmdir()

    def delete_below(self, prefix: str) -> None:
        """As BlobStore says it."""
        path = self._path(f"{prefix}all").parent
        with _as_blob_error(), suppress(FileNotFoundError):
            shutil.rmtree(path)

    def receive(self, key: str, most_bytes: int, size_bytes: int = 0) -> "IncomingBlob":
        """For a blob that comes in parts. Of `size_bytes` it is known at once whether they have room.

        Raises TooLargeError, and BlobError: FullError where it has no room in the folder.
        """
        check_size(size_bytes, most_bytes)
        path, unfinished = self._path(key), self._folder / UNFINISHED / secrets.token_hex(16)
        run_id = key.partition("/")[0]
        with _as_blob_error():
            self._room.check(run_id, size_bytes)
            return IncomingBlob(unfinished, path, _Reservation(self._room, run_id), most_bytes)

    def _path(self, key: str) -> Path:
        check_blob_key(key)
        return self._folder / key


class _Reservation:
    """The room of one blob as it comes, given back once by whoever ends it."""

    def __init__(self, room: StorageBudget, run_id: str) -> None:
        self._room, self._run_id, self._size = room, run_id, 0
        room.take(run_id, 0, 1)
        self._is_open = True

    def grow(self, size: int) -> None:
        self._room.take(self._run_id, size, 0)
        self._size += size

    def settle(self, replaced: int | None) -> None:
        self._is_open = False
        self._room.settle(self._run_id, self._size, replaced)

    def give_back(self) -> None:
        if self._is_open:
            self._is_open = False
            self._room.give_back(self._run_id, self._size, 1)


class IncomingBlob:
    """A blob on its way: there is nothing of it before it is whole, and on disk. All raise BlobError."""

    def __init__(self, unfinished: Path, path: Path, place: _Reservation, most_bytes: int) -> None:
        self._unfinished, self._path, self._place, self._most = unfinished, path, place, most_bytes
        self._received = 0
        try:
            self._file = unfinished.open("xb")
        except OSError:
            place.give_back()
            raise

    def write(self, part: bytes) -> None:
        """The next part. Raises TooLargeError, too."""
        self._received += len(part)
        check_size(self._received, self._most)
        with _as_blob_error():
            self._place.grow(len(part))
            self._file.write(part)

    def finish(self) -> None:
        """It replaces what was there. Raises ValueError where that is a folder, or below another blob."""
        with _as_blob_error():
            self._file.flush()
            os.fsync(self._file.fileno())
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                replaced = _size_of(self._path)
                self._unfinished.replace(self._path)
            except (IsADirectoryError, NotADirectoryError, FileExistsError):
                raise ValueError(
                    "an artifact can't be where a folder is, nor below another artifact"
                ) from None
            self._place.settle(replaced)
            for folder in self._path.parents:  # each may be new
                _sync_folder(folder)
                if folder == self._unfinished.parents[1]:
                    break

    def end(self) -> None:
        """What isn't finished is forgotten."""
        with suppress(OSError):  # what is still to be written finds no room on a full disk
            self._file.close()
        self._unfinished.unlink(missing_ok=True)
        self._place.give_back()


def _size_of(path: Path) -> int | None:
    """None where nothing is."""
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
