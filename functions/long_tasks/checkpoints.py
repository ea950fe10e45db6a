"""What tasks have saved of their work, for whoever runs them next. One file for each request."""

import os
import threading
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


class Progress:
    """Of one request. The task uses it; `leave` comes from the drain callback, in another thread."""

    def __init__(self, checkpoints: Checkpoints, name: str) -> None:
        self._checkpoints = checkpoints
        self._name = name
        self._leaving = threading.Event()
        self.saved = checkpoints.load(name)
        """What was saved last, by this attempt or one before it; None for a task that begins."""

    @property
    def should_save(self) -> bool:
        """The partition is about to leave, or the replica to stop, and nothing was saved since that was said.

        The task goes on: what it does within the wait still counts. After it, its worker is killed.
        """
        return self._leaving.is_set()

    def save(self, state: bytes) -> None:
        """At any time, as often as is worth it: a kill that nobody announces loses what comes after."""
        self._leaving.clear()
        self._checkpoints.save(self._name, state)
        self.saved = state

    def leave(self) -> None:
        """Ask the task to save."""
        self._leaving.set()

    def drop(self) -> None:
        """The request is answered."""
        if self.saved is not None:
            self._checkpoints.drop(self._name)
