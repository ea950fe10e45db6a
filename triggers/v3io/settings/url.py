"""A trigger's url: the web API's, or with a stream and a group as Nuclio's dashboard wants them."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

WITHOUT_GROUP = "has a path, which must contain @ indicating the consumer group's name"
WITHOUT_STREAM = "must contain the container's name and the stream's path"
_EXAMPLE = "; expected http://v3io-webapi:8081/CONTAINER/STREAM@GROUP"


@dataclass(frozen=True, slots=True)
class StreamUrl:
    """`scheme://host[:port]/container/stream@group`; of a bare address only `web_api` says anything."""

    web_api: str
    container: str = ""
    stream_path: str = ""
    group: str = ""


def parse_url(text: str) -> StreamUrl:
    """Raises ValueError, with what follows the word url."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
    except ValueError:  # whose message may show a password
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
