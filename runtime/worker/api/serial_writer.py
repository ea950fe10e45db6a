"""One thing after another, whichever thread or signal handler brings it."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SerialWriter(Generic[T]):
    """Has one thing at a time written.

    A thread waits for another's. A signal handler of Python runs amid what its own thread writes: waiting for
    that would be for ever, writing now would be into the middle of it. So what it brings waits, and is
    written by whoever it has interrupted.
    """

    def __init__(self, write: Callable[[deque[T]], None]) -> None:
        """`write` takes each from the left of what waits once that is written.

        It may be ended by what a signal handler raises: the next call goes on with what is left.
        """
        self._write = write
        self._lock = threading.RLock()
        self._waiting: deque[T] = deque()
        self._is_writing = False

    def __call__(self, item: T) -> None:
        """Returns once it is written, but for a signal handler amid another call of its thread."""
        with self._lock:
            self._waiting.append(item)
            # Again: more may have come before the flag fell.
            while self._waiting and not self._is_writing:
                self._is_writing = True
                try:
                    self._write(self._waiting)
                finally:
                    self._is_writing = False
