"""What tasks have saved of their work, for whoever runs them next. One file for each request."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from headrace.functions.events import Event


class Checkpoints(Protocol):
    """Kept by request. All of it blocks."""

    def load(self, name: str) -> bytes | None:
        """What was saved last under that name."""
        ...

    def save(self, name: str, state: bytes) -> None:
        """Replaces what was saved before, whole or not at all."""
        ...

    def drop(self, name: str) -> None:
        """It is of no use any more. Nothing happens where there is none."""
        ...


class NoCheckpoints:
    """Nobody has named a folder: every attempt begins anew."""

    def load(self, name: str) -> bytes | None:
        """Nothing."""
        return None

    def save(self, name: str, state: bytes) -> None:
        """Nowhere."""

    def drop(self, name: str) -> None:
        """There is none."""


class CheckpointFolder:
    """A folder that all who may get a partition see: local for one machine, shared for several."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def load(self, name: str) -> bytes | None:
        """None where nothing was saved."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def save(self, name: str, state: bytes) -> None:
        """On disk when it returns. Raises OSError."""
        new = self._folder / f"{name}.{os.getpid()}.new"
        with new.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / name)

    def drop(self, name: str) -> None:
        """Idempotent."""
        (self._folder / name).unlink(missing_ok=True)


def checkpoints_in(folder: str) -> Checkpoints:
    """Of TASK_CHECKPOINTS, which may be empty."""
    return CheckpointFolder(Path(folder)) if folder else NoCheckpoints()


def name_of(event: Event) -> str:
    """Of one request. With its content: a topic that is made anew has other records at the same offsets."""
    content = sha256(repr((event.key, event.body, event.timestamp)).encode()).hexdigest()[:16]
    return f"{event.topic}-{event.shard_id}-{event.offset}-{content}"
