"""Writes that must not get amid each other, from any thread and any signal handler."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SerialWriter(Generic[T]):
    """Writes one item at a time, in the order in which they came.

    A thread waits for another's write. A signal handler of Python runs amid a write of its own thread: to
    wait for that would be for ever, to write now would be into the middle of it. So what it brings waits, and
    is written by the call that it has interrupted.
    """

    def __init__(self, write: Callable[[deque[T]], None]) -> None:
        """`write` takes each item from the left of what waits once it is written.

        It may be ended by what a signal handler raises: the next call goes on with what is left.
        """
        self._write = write
        # An RLock lets a signal handler in amid a write of its own thread, and the flag then tells it so.
        self._lock = threading.RLock()
        self._waiting: deque[T] = deque()
        self._is_writing = False

    def __call__(self, item: T) -> None:
        """Write `item`, and return once that is done; a signal handler amid a call returns before."""
        with self._lock:
            self._waiting.append(item)
            # Again: more may have come before the flag fell.
            while self._waiting and not self._is_writing:
                self._is_writing = True
                try:
                    self._write(self._waiting)
                finally:
                    self._is_writing = False
