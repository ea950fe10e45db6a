"""Listings in XML: of a directory, and of the containers."""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import xml_answer
from headrace.runtime.embedded.v3io.errors import invalid_argument
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address, Node, NodeKind, parse_address
from headrace.runtime.embedded.v3io.store import Store

_MAX_KEYS = 1000


class _ListRequest(NamedTuple):
    """A listing that is asked for. `marker` is the name behind which to begin."""

    directory: Address
    marker: str
    most: int
    has_info: bool
    is_directories_only: bool


class Listing:
    """The requests for listings."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def containers(self) -> web.Response:
        shown = []
        for name in sorted(self._store.containers):
            node = self._store.nodes.existing(Address("", name))
            about = {"Name": name, "CreationDate": _time(node.ctime_ns), "Id": node.inode}
            shown.append(_element("Bucket", _elements(about)))
        return xml_answer(_element("ListAllMyBucketsResult", _element("Buckets", "".join(shown))))

    def contents(self, container: str, query: str) -> web.Response:
        """List one level of a container: what is in the query's `prefix`, or that itself if it is a file."""
        request = _parse_request(container, query)
        top = self._store.nodes.existing(request.directory)
        found = [top] if not top.is_directory else self._children(request)
        shown, is_truncated = found[: request.most], len(found) > request.most
        about = {
            "Name": container,
            "NextMarker": _key(shown[-1], container) if shown else "",
            "MaxKeys": request.most,
            "IsTruncated": str(is_truncated).lower(),
        }
        entries = "".join(_entry(node, container, has_info=request.has_info) for node in shown)
        return xml_answer(_element("ListBucketResult", _elements(about) + entries))

    def _children(self, request: _ListRequest) -> list[Node]:
        """Return one child more than is shown, if there is one."""
        found = self._store.nodes.children(
            request.directory.path,
            request.marker,
            request.most + 1,
            is_directories_only=request.is_directories_only,
        )
        # Attributes are dropped at once: a thousand items may have ten megabytes of them each.
        return [node._replace(attributes="") for node in found]


def _parse_request(container: str, query: str) -> _ListRequest:
    pairs = (field.partition("=") for field in query.split("&"))  # a + is a plus here: Go sends it as it is
    fields = {name: value for name, _, value in pairs}
    most = fields.get("max-keys") or str(_MAX_KEYS)
    if not (most.isascii() and most.isdecimal() and len(most) < 20 and 1 <= int(most) <= _MAX_KEYS):
        raise invalid_argument(f"max-keys is {most[:40]!r}, expected a number from 1 to {_MAX_KEYS}")
    # A marker is a path, as NextMarker gave it. Children are found by name.
    marker = unquote(fields.get("marker", "")).strip("/").rpartition("/")[2]
    return _ListRequest(
        parse_address(f"{container}/{fields.get('prefix', '')}"),
        marker,
        int(most),
        fields.get("prefix-info") == "1",
        fields.get("prefix-only") == "1",
    )


def _entry(node: Node, container: str, *, has_info: bool) -> str:
    """Return the entry of a file, `Contents`, or of a directory, `CommonPrefixes`."""
    key = _key(node, container)
    about: dict[str, object] = {"Prefix": f"{key}/"} if node.is_directory else {"Key": key, "Size": node.size}
    about["LastModified"] = _time(node.mtime_ns)
    if has_info:
        about |= _info(node)
    return _element("CommonPrefixes" if node.is_directory else "Contents", _elements(about))


def _info(node: Node) -> dict[str, object]:
    about: dict[str, object] = {
        "Mode": f"0{node.mode:o}",
        "AccessTime": _time(node.mtime_ns),
        "CreatingTime": _time(node.ctime_ns),
        "GID": 0,
        "UID": 0,
        "InodeNumber": node.inode,
    }
    if node.kind == NodeKind.STREAM:
        about |= {"ShardCount": node.shard_count, "RetentionPeriodHours": node.retention_hours}
    return about


def _key(node: Node, container: str) -> str:
    """Return the path of a node inside the container."""
    return node.path.removeprefix(f"{container}/")


def _time(ns: int) -> str:
    """Return a time to the hundredth of a second, as the platform writes it."""
    moment = datetime.fromtimestamp(ns // NANOSECONDS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % NANOSECONDS // 10_000_000:02}Z"


def _elements(about: dict[str, object]) -> str:
    return "".join(_element(name, escape(str(value))) for name, value in about.items())


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"
