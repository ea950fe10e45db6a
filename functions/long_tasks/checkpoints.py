"""Checkpoints of tasks: what an attempt has saved of its work, for the attempt that continues it."""

import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from headrace.functions.events import Event


class Checkpoints(Protocol):
    """Storage of one saved state per request, by name. All methods block."""

    def load(self, name: str) -> bytes | None:
        """Return the state that was saved last under `name`; None where there is none."""
        ...

    def save(self, name: str, state: bytes) -> None:
        """Replace the saved state, as a whole or not at all. Raises OSError."""
        ...

    def delete(self, name: str) -> None:
        """Delete the saved state, which nobody needs any more. Does nothing where there is none."""
        ...


class NoCheckpoints:
    """Checkpoints that save nothing, for a pool without TASK_CHECKPOINTS: every attempt begins anew."""

    def load(self, name: str) -> bytes | None:
        """Return None."""
        return None

    def save(self, name: str, state: bytes) -> None:
        """Do nothing."""

    def delete(self, name: str) -> None:
        """Do nothing."""


class CheckpointFolder:
    """Checkpoints in a folder, one file for each request.

    Every process that may get the partition has to see the folder: a local one for one machine, a shared one
    for several.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def load(self, name: str) -> bytes | None:
        """Return the state that was saved last under `name`; None where there is none."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def save(self, name: str, state: bytes) -> None:
        """Replace the saved state; it is on disk when this returns. Raises OSError."""
        # A file of its own for each process: two that save for one request (before a rebalance is over) must
        # not write into each other's. The rename makes the last one count, whole.
        new = self._folder / f"{name}.{os.getpid()}.new"
        with new.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / name)

    def delete(self, name: str) -> None:
        """Delete the saved state; idempotent."""
        (self._folder / name).unlink(missing_ok=True)


def open_checkpoints(folder: str) -> Checkpoints:
    """Return the checkpoints in `folder`, which is TASK_CHECKPOINTS and may be empty."""
    return CheckpointFolder(Path(folder)) if folder else NoCheckpoints()


def checkpoint_name(event: Event) -> str:
    """Return the name of a request's checkpoint.

    The content's hash is part of it: a topic that is made anew has other records at the same offsets.
    """
    content = sha256(repr((event.key, event.body, event.timestamp)).encode()).hexdigest()[:16]
    return f"{event.topic}-{event.shard_id}-{event.offset}-{content}"


class Progress:
    """The progress of one request: the state of an earlier attempt, and requests to save.

    The task's thread calls `save`; the drain callback calls `request_save` in another thread.
    """

    def __init__(self, checkpoints: Checkpoints, name: str) -> None:
        self._checkpoints = checkpoints
        self._name = name
        self._save_requested = threading.Event()
        self.saved = checkpoints.load(name)
        """The state that was saved last, by this attempt or one before it; None for a new task."""

    @property
    def should_save(self) -> bool:
        """Whether the task is asked to save now.

        True from the moment that the partition is about to be revoked, or the replica to stop, until the next
        `save`. The task goes on meanwhile: if it returns within the wait, the result still counts. After the
        wait its worker is killed.
        """
        return self._save_requested.is_set()

    def save(self, state: bytes) -> None:
        """Save `state` for a later attempt. Raises OSError.

        May be called at any time: a kill without a warning loses what was done since the last call.
        """
        # Cleared first: a request that comes while this writes asks for another save.
        self._save_requested.clear()
        self._checkpoints.save(self._name, state)
        self.saved = state

    def request_save(self) -> None:
        """Ask the task to save."""
        self._save_requested.set()

    def delete(self) -> None:
        """Delete the checkpoint of a request that has been answered."""
        # Most tasks never save; they are spared the access to a shared folder.
        if self.saved is not None:
            self._checkpoints.delete(self._name)
