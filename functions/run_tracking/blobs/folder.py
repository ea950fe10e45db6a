"""A folder that all parts of the function see."""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from headrace.functions.run_tracking.blobs.signatures import Signatures
from headrace.functions.run_tracking.blobs.store import BlobError, Upload
from headrace.functions.run_tracking.messages.keys import can_be, check_blob_key

_PART_BYTES = 1024 * 1024
_UNFINISHED = ".unfinished"


class FolderStore:
    """Keeps BlobStore. Clients put blobs through the frontier, at addresses that are signed here."""

    def __init__(self, folder: Path, frontier_url: str) -> None:
        """Raises BlobError where the folder can't be made."""
        self._folder, self._frontier_url = folder, frontier_url
        with _as_blob_error():
            (folder / _UNFINISHED).mkdir(parents=True, exist_ok=True)
            self.signatures = Signatures(folder)

    def upload(self, key: str, content_type: str) -> Upload:
        """As BlobStore says it."""
        check_blob_key(key)
        return Upload(self.signatures.sign(self._frontier_url, key, content_type))

    def read(self, key: str) -> Iterator[bytes] | None:
        """As BlobStore says it."""
        if not can_be(key):
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

    def receive(self, key: str) -> "Receiving":
        """For a blob that comes in parts."""
        path = self._path(key)
        with _as_blob_error():
            return Receiving(self._folder / _UNFINISHED / secrets.token_hex(16), path)

    def _path(self, key: str) -> Path:
        check_blob_key(key)
        return self._folder / key


class Receiving:
    """A blob on its way: there is nothing of it before it is whole, and on disk. All raise BlobError."""

    def __init__(self, unfinished: Path, path: Path) -> None:
        self._unfinished, self._path = unfinished, path
        self._file = unfinished.open("xb")

    def write(self, part: bytes) -> None:
        """The next part."""
        with _as_blob_error():
            self._file.write(part)

    def finish(self) -> None:
        """It replaces what was there. Raises ValueError where that is a folder, or below another blob."""
        with _as_blob_error():
            self._file.flush()
            os.fsync(self._file.fileno())
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._unfinished.replace(self._path)
            except (IsADirectoryError, NotADirectoryError, FileExistsError):
                raise ValueError(
                    "an artifact can't be where a folder is, nor below another artifact"
                ) from None
            for folder in self._path.parents:  # each may be new
                _sync_folder(folder)
                if folder == self._unfinished.parents[1]:
                    break

    def end(self) -> None:
        """What isn't finished is forgotten."""
        self._file.close()
        self._unfinished.unlink(missing_ok=True)


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
        raise BlobError(f"the folder of blobs: {error.strerror or error}") from None
