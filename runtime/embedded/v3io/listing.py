"""What is in a directory, and which containers there are, in XML."""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import xml_answer
from headrace.runtime.embedded.v3io.errors import invalid_argument
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address, Node, NodeKind, parse_address
from headrace.runtime.embedded.v3io.store import Store

_MOST_KEYS = 1000


class _Wanted(NamedTuple):
    """`marker` is the name behind which to begin."""

    directory: Address
    marker: str
    most: int
    has_info: bool
    is_directories_only: bool


class Listing:
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
        """One level of it: what the query's `prefix` has in it, or is."""
        wanted = _wanted(container, query)
        top = self._store.nodes.existing(wanted.directory)
        found = [top] if not top.is_directory else self._children(wanted)
        shown, is_truncated = found[: wanted.most], len(found) > wanted.most
        about = {
            "Name": container,
            "NextMarker": _key(shown[-1], container) if shown else "",
            "MaxKeys": wanted.most,
            "IsTruncated": str(is_truncated).lower(),
        }
        entries = "".join(_entry(node, container, has_info=wanted.has_info) for node in shown)
        return xml_answer(_element("ListBucketResult", _elements(about) + entries))

    def _children(self, wanted: _Wanted) -> list[Node]:
        """One more than is shown, if there is one."""
        found = self._store.nodes.children(
            wanted.directory.path,
            wanted.marker,
            wanted.most + 1,
            is_directories_only=wanted.is_directories_only,
        )
        return [node._replace(attributes="") for node in found]  # a thousand times ten megabytes, perhaps


def _wanted(container: str, query: str) -> _Wanted:
    pairs = (field.partition("=") for field in query.split("&"))  # a + is a plus here: Go sends it as it is
    fields = {name: value for name, _, value in pairs}
    most = fields.get("max-keys") or str(_MOST_KEYS)
    if not (most.isascii() and most.isdecimal() and len(most) < 20 and 1 <= int(most) <= _MOST_KEYS):
        raise invalid_argument(f"max-keys is {most[:40]!r}, expected a number from 1 to {_MOST_KEYS}")
    marker = unquote(fields.get("marker", "")).strip("/").rpartition("/")[2]
    return _Wanted(
        parse_address(f"{container}/{fields.get('prefix', '')}"),
        marker,
        int(most),
        fields.get("prefix-info") == "1",
        fields.get("prefix-only") == "1",
    )


def _entry(node: Node, container: str, *, has_info: bool) -> str:
    """A file's `Contents`, or a directory's `CommonPrefixes`."""
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
    """Its path inside the container."""
    return node.path.removeprefix(f"{container}/")


def _time(ns: int) -> str:
    """To the hundredth of a second, as the platform writes it."""
    moment = datetime.fromtimestamp(ns // NANOSECONDS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % NANOSECONDS // 10_000_000:02}Z"


def _elements(about: dict[str, object]) -> str:
    return "".join(_element(name, escape(str(value))) for name, value in about.items())


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"
