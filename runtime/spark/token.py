"""The token of a Spark Connect server that may be started again, each time with another token."""

import os
import weakref
from urllib.parse import quote

from headrace.runtime.wire import shared_memory

_LENGTH, _TEXT = 0, 8
_WORDS = 16


class SharedToken:
    """Memory that the server's owner shares with replicas and workers, who can't write it.

    Empty while there is no server. It says nothing until the server's port is known to be the server's.
    """

    def __init__(self, fd: int, words: memoryview | None = None) -> None:
        """`fd` is what `create` has made."""
        self.fd = fd
        self._memory = memoryview(shared_memory.map_readable(fd)) if words is None else words

    @classmethod
    def create(cls) -> "SharedToken":
        """Its descriptor is inherited by no process unless passed on."""
        fd = shared_memory.create("headrace-spark-token", _WORDS)
        made = cls(fd, memoryview(shared_memory.map_writable(fd)))
        shared_memory.keep_to_writer(fd)
        weakref.finalize(made, os.close, fd)
        return made

    @classmethod
    def take(cls, fd: int) -> "SharedToken":
        """One that was passed on to this process, and goes no further by itself."""
        os.set_inheritable(fd, False)
        return cls(fd)

    @property
    def text(self) -> str:
        """As it is now."""
        return bytes(self._memory[_TEXT : _TEXT + self._memory[_LENGTH]]).decode()

    @property
    def parameter(self) -> str:
        """What it adds to the address of a session."""
        return f";token={quote(text, safe='')}" if (text := self.text) else ""

    # ---- for the server's owner

    def publish(self, text: str) -> None:
        """A server asks for this one. ASCII, at most 120 characters; `withdraw` comes between two."""
        self._memory[_TEXT : _TEXT + len(text)] = text.encode()
        self._memory[_LENGTH] = len(text)  # last: who reads a length reads its text

    def withdraw(self) -> None:
        """The server is gone."""
        self._memory[_LENGTH] = 0
