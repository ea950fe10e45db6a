"""Objects: files and directories by HTTP's own methods, whole or by the header Range."""

import re
from email.utils import formatdate

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import empty
from headrace.runtime.embedded.v3io.errors import (
    ApiError,
    invalid_argument,
    is_a_directory,
    not_a_directory,
    not_permitted,
)
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address, Node, NodeKind
from headrace.runtime.embedded.v3io.store import Store

APPEND = "-1"
"""The Range of a PUT that appends."""
# v3io clients send `bytes=4` for all from 4 on, as others send `bytes=4-`.
_RANGE = re.compile(r"bytes=([0-9]{1,18})(?:-([0-9]{1,18})?)?|bytes=-([0-9]{1,18})")


def part_of(header: str, size: int) -> slice:
    """Return the part of an object of `size` bytes that is asked for. ApiError where there is none."""
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        raise invalid_argument(f"Range is {header[:40]!r}, expected bytes=FIRST-LAST")
    first, last, suffix = found.groups()
    start = size - min(int(suffix), size) if suffix else int(first)
    end = min(int(last) + 1, size) if last else size
    if start >= end:
        raise ApiError(416, -22, f"Invalid range: {header[:40]!r} of {size} bytes")
    return slice(start, end)


class Objects:
    """The requests for objects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def head(self, address: Address) -> web.Response:
        """Return the headers that `get` would for the whole; a directory has no content."""
        node = self._store.nodes.existing(address)
        headers = {"Content-Length": str(node.size), "Last-Modified": _last_modified(node)}
        return web.Response(headers=headers, content_type="application/octet-stream")

    def get(self, address: Address, asked_range: str) -> web.Response:
        node = self._store.nodes.existing(address)
        data, status = self._store.nodes.data(node), 200
        if asked_range:
            part = part_of(asked_range, node.size)
            data, status = data[part], 206
        answer = web.Response(status=status, body=data, content_type="application/octet-stream")
        answer.headers["Last-Modified"] = _last_modified(node)
        if asked_range:
            answer.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{node.size}"
        return answer

    def put(self, address: Address, data: bytes, asked_range: str) -> web.Response:
        """Write a file, or append to it; a path that ends in a slash makes a directory."""
        if asked_range not in {"", APPEND}:
            raise invalid_argument(f"Range is {asked_range[:40]!r}, expected {APPEND}, to append, or none")
        node = self._store.nodes.find(address)
        if address.has_slash:
            self._put_directory(address, node)
        else:
            self._put_file(address, node, data, is_appended=asked_range == APPEND)
        return web.Response()

    def delete(self, address: Address) -> web.Response:
        """Delete a file, or a directory or stream that is empty."""
        if not address.folder:
            raise not_permitted("a container stays")
        node = self._store.nodes.existing(address)
        # With a shard its records go, by and by.
        with self._store.database.transaction():
            self._store.nodes.delete(node)
            self._store.records.discard(node)
        return empty()

    def _put_directory(self, address: Address, node: Node | None) -> None:
        if node is not None and not node.is_directory:
            raise not_a_directory()
        if node is None:
            with self._store.database.transaction():
                self._store.nodes.make(address, NodeKind.DIRECTORY)

    def _put_file(self, address: Address, node: Node | None, data: bytes, *, is_appended: bool) -> None:
        if node is not None and node.is_directory:
            raise is_a_directory()
        if node is not None and node.kind == NodeKind.SHARD:
            raise not_permitted("PutRecords writes to shards")
        # Appending keeps a file in one row: it is for small files, as all of this server is.
        before = self._store.nodes.data(node) if node is not None and is_appended else b""
        with self._store.database.transaction():
            file = node or self._store.nodes.make(address, NodeKind.FILE)
            self._store.nodes.touch(file, data=before + data)


def _last_modified(node: Node) -> str:
    return formatdate(node.mtime_ns // NANOSECONDS, usegmt=True)
