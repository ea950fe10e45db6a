"""Spark Connect servers: their address, their token, and the address of one session there."""

import os
import weakref
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from headrace.runtime.wire import shared_memory

_LENGTH, _TEXT = 0, 8
_WORDS = 16


class SharedToken:
    """The token of a server that may be started again, each time with another token.

    It lies in memory that the server's owner shares with replicas and workers, who can't write it. Empty
    while there is no server: it says nothing until the server's port is known to be the server's.
    """

    def __init__(self, fd: int, words: memoryview | None = None) -> None:
        """`fd` is the descriptor that `create` has made."""
        self.fd = fd
        self._memory = memoryview(shared_memory.map_readable(fd)) if words is None else words

    @classmethod
    def create(cls) -> "SharedToken":
        """Create one, for the server's owner. Its descriptor is inherited by no process unless passed on."""
        fd = shared_memory.create("headrace-spark-token", _WORDS)
        made = cls(fd, memoryview(shared_memory.map_writable(fd)))
        shared_memory.keep_to_writer(fd)
        weakref.finalize(made, os.close, fd)
        return made

    @classmethod
    def take(cls, fd: int) -> "SharedToken":
        """Map one that was passed on to this process, and goes no further by itself."""
        os.set_inheritable(fd, False)
        return cls(fd)

    @property
    def text(self) -> str:
        """The token, as it is now; empty while there is no server."""
        return bytes(self._memory[_TEXT : _TEXT + self._memory[_LENGTH]]).decode()

    @property
    def parameter(self) -> str:
        """Parameter that the token adds to the address of a session."""
        return f";token={quote(text, safe='')}" if (text := self.text) else ""

    # ---- for the server's owner

    def publish(self, text: str) -> None:
        """Set the token that the server asks for: ASCII, at most 120 characters.

        `withdraw` comes between two.
        """
        self._memory[_TEXT : _TEXT + len(text)] = text.encode()
        self._memory[_LENGTH] = len(text)  # last: who reads a length reads its text

    def withdraw(self) -> None:
        """Clear the token: the server is gone."""
        self._memory[_LENGTH] = 0


_URL, _TOKEN_FD = "HEADRACE_SPARK_URL", "HEADRACE_SPARK_TOKEN_FD"
_DEFAULT_PORT = 15002


# A session is found by user and id: whoever ends it must come as the one that opened it. The default, $USER,
# may differ between the two.
_USER = "headrace"


@dataclass(frozen=True, slots=True)
class SparkLink:
    """A function's Spark Connect server.

    `url` is sc://host:port/;key=value, without a token. `conf` is what each session sets for itself. `shared`
    is the token of a server of our own, in place of `token`.
    """

    url: str
    token: str = field(repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    shared: SharedToken | None = field(default=None, repr=False)

    @property
    def has_server(self) -> bool:
        """Whether there is a server. One of our own may be gone: then all that ran on it is over."""
        return self.shared is None or bool(self.shared.text)

    @property
    def session_url(self) -> str:
        """Address with token and user, to which `;session_id=` may be added. Never to be shown."""
        return self.lasting_url + (self.shared.parameter if self.shared else "")

    @property
    def lasting_url(self) -> str:
        """The same without a token that the next start of the server changes."""
        base, _, params = self.url.partition(";")
        parameters = [param for param in params.split(";") if param]
        if not any(param.startswith("user_id=") for param in parameters):
            parameters.append(f"user_id={_USER}")
        if self.token and self.shared is None:
            parameters.append(f"token={quote(self.token, safe='')}")
        return f"{base.rstrip('/')}/;{';'.join(parameters)}"

    @property
    def token_fd(self) -> int:
        """Descriptor of the shared token, for a process to inherit; -1 where there is none."""
        return self.shared.fd if self.shared else -1

    def environment(self) -> dict[str, str]:
        """Return variables for a replica, which inherits `token_fd`. A server of our own has no `conf`."""
        return {_URL: self.url, _TOKEN_FD: str(self.token_fd)}

    @classmethod
    def from_environment(cls, env: MutableMapping[str, str] = os.environ) -> "SparkLink | None":
        """Return the server that the supervisor owns, as its replica's environment says; None without one.

        The variables are taken out: handlers and what they start need not see them.
        """
        url, token_fd = env.pop(_URL, ""), env.pop(_TOKEN_FD, "")
        return cls(url, "", shared=SharedToken.take(int(token_fd))) if url else None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A session address in its parts, as pyspark reads them."""

    host: str
    port: int
    params: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> "Endpoint":
        """Parse an address that was checked before."""
        parts = urlsplit(url)
        pairs = [param.partition("=") for param in parts.path.split(";")[1:] if param]
        params = {key: unquote(value) for key, _, value in pairs}
        return cls(parts.hostname or "", parts.port or _DEFAULT_PORT, params)


def channel_options(host: str) -> list[tuple[str, int]]:
    """Return options of a gRPC channel.

    A server that was started again is found within a second; gRPC's own pauses grow to two minutes. gRPC goes
    through the environment's http_proxy, even to this machine, where no proxy finds anybody.
    """
    no_proxy = [("grpc.enable_http_proxy", 0)] if host == "localhost" else []
    return [("grpc.max_reconnect_backoff_ms", 1000), *no_proxy]
