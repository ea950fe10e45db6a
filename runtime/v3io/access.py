"""Where a web API is, and how to get in."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

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
