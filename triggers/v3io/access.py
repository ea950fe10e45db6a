"""A trigger's url and credentials: where its web API is, and who it is there. Nuclio's rules for both."""

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headrace.runtime.v3io.addresses import V3IO_KEY_VARIABLE, V3ioAccess

WITHOUT_GROUP = "has a path, which must contain @ indicating the consumer group's name"
WITHOUT_STREAM = "must contain the container's name and the stream's path"
_EXAMPLE = "; expected http://v3io-webapi:8081/CONTAINER/STREAM@GROUP"


@dataclass(frozen=True, slots=True)
class StreamUrl:
    """`scheme://host[:port]/container/stream@group`, taken apart; a bare address has `web_api` alone."""

    web_api: str
    container: str = ""
    stream_path: str = ""
    group: str = ""


def parse_url(text: str) -> StreamUrl:
    """Take a trigger's url apart. Raises ValueError, whose text follows the word url."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
    except ValueError:
        # The message of urlsplit may show a password, which stands in a url before an @.
        raise ValueError("is none" + _EXAMPLE) from None
    if parts.query or parts.fragment:
        raise ValueError("has a ? or #" + _EXAMPLE)
    web_api = f"{parts.scheme}://{parts.netloc}"
    path = unquote(parts.path).strip("/")
    if not path:
        return StreamUrl(web_api)
    if path.count("@") != 1:
        raise ValueError(WITHOUT_GROUP + _EXAMPLE)
    place, _, group = path.partition("@")
    container, _, stream = place.strip("/").partition("/")
    if not container or not stream.strip("/") or not group:
        raise ValueError(WITHOUT_STREAM + _EXAMPLE)
    return StreamUrl(web_api, container, "/" + stream.strip("/"), group)


GENERATE = "$generate"
"""A password that stands for the access key in the environment."""


def access_of(
    web_api: str, username: str, password: str, secret: str, env: Mapping[str, str] = os.environ
) -> V3ioAccess:
    """Return how to get into the web API.

    A password that is a UUID is an access key, and so is `secret`; any other password signs in beside a
    username.
    """
    if password == GENERATE:
        return V3ioAccess(web_api, env.get(V3IO_KEY_VARIABLE, password))
    if is_access_key(password):
        return V3ioAccess(web_api, password)
    # Credentials of the file come first; the environment's key is for files that have none.
    if not secret and not (username and password):
        secret = env.get(V3IO_KEY_VARIABLE, "")
    return V3ioAccess(web_api, secret, username, password)


def is_access_key(text: str) -> bool:
    """Whether the text is an access key: those are UUIDs."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
