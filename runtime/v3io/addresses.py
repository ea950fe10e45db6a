"""Addresses: of a v3io web API, with what signs in there, and of a stream in one of its containers."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

V3IO_OPTION = "--v3io"
V3IO_OVERRIDE_VARIABLE = "HEADRACE_V3IO"
"""Environment variable in the place of the option: it beats what a file says."""
V3IO_VARIABLE = "V3IO_API"
"""Environment variable with the web API's address, if nothing else says it; the `v3io` package's own."""
V3IO_KEY_VARIABLE = "V3IO_ACCESS_KEY"
# Neither a path nor a user: each request brings its own path, and signs in by a header.
_ADDRESS = re.compile(r"(?:(https?)://)?((?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(?::\d{1,5})?)/*")


def checked_web_api(text: str) -> str:
    """Return the address with a scheme, `http://host:8081`, without a slash at its end.

    Raises ValueError, whose text follows the name of what has the address.
    """
    if "@" in text:  # what stands before it may be a password, so nothing of it is shown
        raise ValueError("has an @; expected an address such as http://v3io-webapi:8081, without a user")
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError("is no address; expected one such as http://v3io-webapi:8081")
    return f"{found[1] or 'http'}://{found[2]}"


_KEY_HEADER = "X-v3io-session-key"


@dataclass(frozen=True, slots=True)
class V3ioAccess:
    """A web API and the credentials for it: the access key or, without one, user and password.

    `url` is as `checked_web_api` returns it.
    """

    url: str
    # Without repr: what gets into a log or an error must not have the key or the password in it.
    access_key: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request, which sign in."""
        if self.access_key:
            return {_KEY_HEADER: self.access_key}
        if self.username and self.password:
            pair = f"{self.username}:{self.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        # A server may ask for no key at all, as the embedded one does unless it was given one.
        return {}

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class StreamPath:
    """A stream's container and path. `path` has no slash at either end."""

    container: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "StreamPath":
        """Take `container/path` apart. Raises ValueError, whose text follows the name of the argument."""
        container, _, path = text.strip("/").partition("/")
        if not container or not path.strip("/"):
            raise ValueError(f"{text!r} is no stream; expected CONTAINER/PATH, such as bigdata/orders")
        return cls(container, path.strip("/"))

    @property
    def url_path(self) -> str:
        """The URL path of the stream itself, which ends in a slash."""
        return f"/{quote(self.container)}/{quote(self.path)}/"

    def item_path(self, name: object) -> str:
        """Return the URL path of what lies in the stream: a shard by its number, the state of a group."""
        return self.url_path + quote(str(name))

    def __str__(self) -> str:
        return f"{self.container}/{self.path}"
