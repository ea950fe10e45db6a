"""Where a v3io web API is: `http://host:8081`, or `host:8081`."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

V3IO_OPTION = "--v3io"


V3IO_OVERRIDE_VARIABLE = "HEADRACE_V3IO"


"""Stands in for the option: it beats what a file says."""


V3IO_VARIABLE = "V3IO_API"


"""Where the web API is, if nothing else says it; the `v3io` package reads it too."""


V3IO_KEY_VARIABLE = "V3IO_ACCESS_KEY"


_ADDRESS = re.compile(r"(?:(https?)://)?((?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(?::\d{1,5})?)/*")


def checked_web_api(text: str) -> str:
    """With its scheme, without a slash at its end. Raises ValueError, with what follows its name."""
    if "@" in text:  # what stands before it may be a password, so nothing of it is shown
        raise ValueError("has an @; expected an address such as http://v3io-webapi:8081, without a user")
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError("is no address; expected one such as http://v3io-webapi:8081")
    return f"{found[1] or 'http'}://{found[2]}"


KEY_HEADER = "X-v3io-session-key"


@dataclass(frozen=True, slots=True)
class V3ioAccess:
    """`url` as checked_web_api has it. The access key counts; without one, user and password do."""

    url: str
    access_key: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request says."""
        if self.access_key:
            return {KEY_HEADER: self.access_key}
        if self.username and self.password:
            pair = f"{self.username}:{self.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class StreamPath:
    """A stream. `path` has no slash at either end."""

    container: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "StreamPath":
        """Of `container/path`. Raises ValueError, with what follows the text's name."""
        container, _, path = text.strip("/").partition("/")
        if not container or not path.strip("/"):
            raise ValueError(f"{text!r} is no stream; expected CONTAINER/PATH, such as bigdata/orders")
        return cls(container, path.strip("/"))

    @property
    def url_path(self) -> str:
        """Of the stream itself, which ends in a slash."""
        return f"/{quote(self.container)}/{quote(self.path)}/"

    def beside(self, name: object) -> str:
        """Of what lies in it: a shard by its number, the state of a group."""
        return self.url_path + quote(str(name))

    def __str__(self) -> str:
        return f"{self.container}/{self.path}"
