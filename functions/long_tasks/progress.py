"""How far a task has come: what it finds of an earlier attempt, and what it leaves for a later one."""

import threading

from headrace.functions.long_tasks.checkpoints import Checkpoints


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
