"""Where a function's Spark Connect server is, and the address of one session on it."""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

_URL, _TOKEN = "HEADRACE_SPARK_URL", "HEADRACE_SPARK_TOKEN"
_DEFAULT_PORT = 15002
# A session is found by user and id: whoever ends it must come as the one that opened it. The default, $USER,
# may differ between the two.
_USER = "headrace"


@dataclass(frozen=True, slots=True)
class SparkLink:
    """`url` is sc://host:port/;key=value, without a token. `conf` is what each session sets for itself."""

    url: str
    token: str = field(repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def session_url(self) -> str:
        """The address with token and user, to which `;session_id=` may be added. Never to be shown."""
        base, _, params = self.url.partition(";")
        given = [param for param in params.split(";") if param]
        if not any(param.startswith("user_id=") for param in given):
            given.append(f"user_id={_USER}")
        if self.token:
            given.append(f"token={quote(self.token, safe='')}")
        return f"{base.rstrip('/')}/;{';'.join(given)}"

    def environment(self) -> dict[str, str]:
        """For a replica, which `from_environment` finds it in. A server of our own has no `conf`."""
        return {_URL: self.url, _TOKEN: self.token}

    @classmethod
    def from_environment(cls, env: MutableMapping[str, str] = os.environ) -> "SparkLink | None":
        """The server that the supervisor owns. Taken out: handlers and what they start need not see it."""
        url, token = env.pop(_URL, ""), env.pop(_TOKEN, "")
        return cls(url, token) if url else None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A session address in its parts, as pyspark reads them."""

    host: str
    port: int
    params: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> "Endpoint":
        """Of a checked address."""
        parts = urlsplit(url)
        pairs = [param.partition("=") for param in parts.path.split(";")[1:] if param]
        params = {key: unquote(value) for key, _, value in pairs}
        return cls(parts.hostname or "", parts.port or _DEFAULT_PORT, params)


def channel_options(host: str) -> list[tuple[str, int]]:
    """A server that was started again is found within a second; gRPC's own pauses grow to two minutes.

    gRPC goes through the environment's http_proxy, even to this machine, where no proxy finds anybody.
    """
    no_proxy = [("grpc.enable_http_proxy", 0)] if host == "localhost" else []
    return [("grpc.max_reconnect_backoff_ms", 1000), *no_proxy]
