"""Secrets as files: a value that names a file in the secret folder stands for its content."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath


class SecretFileError(ValueError):
    """A secret's file cannot be read. The message names neither the value nor the content."""


@dataclass(frozen=True, slots=True)
class SecretFolder:
    """The folder that `secretPath` names. The off case has no folder and changes no value."""

    folder: Path | None = None

    def content(self, value: str, *, may_be_path: bool = False) -> str:
        """The content of the file that `value` names, without the line end editors add; else `value`.

        A value that would lead out of the folder names no file, unless it is a full path and
        `may_be_path`. SecretFileError: the file is there and cannot be read as UTF-8 text.
        """
        file = _existing(Path(value)) if may_be_path and value.startswith("/") else self._file(value)
        if file is None:
            return value
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise SecretFileError(f"its file cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SecretFileError("its file is not UTF-8 text") from None

    def _file(self, value: str) -> Path | None:
        name = PurePosixPath(value)
        if self.folder is None or not value or name.is_absolute() or ".." in name.parts:
            return None
        return _existing(self.folder / name)


def _existing(file: Path) -> Path | None:
    try:
        return file if file.is_file() else None
    except (OSError, ValueError):  # a whole certificate is too long for a file name
        return None
