"""GetItems: pages of the items in a directory that a filter is true of."""

import asyncio
import base64
import zlib
from typing import Any, NamedTuple

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import FunctionCall, json_answer
from headrace.runtime.embedded.v3io.errors import invalid_argument, not_a_directory
from headrace.runtime.embedded.v3io.items import ItemView, names_in
from headrace.runtime.embedded.v3io.language.evaluation import BYTES_PER_STEP, holds
from headrace.runtime.embedded.v3io.language.values import MalformedError
from headrace.runtime.embedded.v3io.nodes import Node
from headrace.runtime.embedded.v3io.store import Store

_MAX_ITEMS = 1000
_MAX_ANSWER_CHARACTERS = 10 << 20
_MAX_SEGMENTS = 1024
_MAX_STEPS = 20_000_000
"""The most steps for a page. An item is one, and so is each token of a filter: short ones see millions."""
_NODES_AT_ONCE = 200
_STEPS_AT_ONCE = 20_000
"""How many nodes or steps come between two turns of other requests."""


class _Scan(NamedTuple):
    """A scan that is asked for: of a segment, names from `start` on, behind `after`, and below `end`."""

    names: list[str]
    filter: str
    start: str
    end: str
    after: str
    limit: int
    segment: int
    segments: int


class _Page:
    """The items of a scan that go into one answer."""

    def __init__(self, scan: _Scan) -> None:
        self._scan = scan
        self._size = 0
        self.items: list[dict[str, Any]] = []
        self.steps = 0

    def take(self, node: Node) -> None:
        """Take an item in, where the filter is true of it. MalformedError."""
        scan = self._scan
        self.steps += 1
        # By a hash of the name each item is in one segment, whoever scans the others at the same time.
        if node.is_directory or zlib.crc32(node.name.encode()) % scan.segments != scan.segment:
            return
        # Parsing the attributes is work as well, whatever the filter looks at.
        view = ItemView(node)
        view.steps.take(len(node.attributes) // BYTES_PER_STEP)
        is_meant = not scan.filter or holds(scan.filter, view.value, view.steps)
        self.steps += view.steps.count
        if is_meant:
            self.items.append(view.chosen(scan.names, with_name=True))
            self.steps += len(scan.names)
            self._size += len(node.attributes)

    def is_full(self) -> bool:
        """Whether the page ends here. ApiError where it is empty, and has taken too many steps."""
        is_spent = self.steps > _MAX_STEPS
        if is_spent and not self.items:
            raise invalid_argument(
                f"FilterExpression: no item fits among those that {_MAX_STEPS} steps get over: "
                "make it shorter, or scan fewer items, by ShardingKey and SortKeyRangeStart"
            )
        is_large = len(self.items) >= self._scan.limit or self._size > _MAX_ANSWER_CHARACTERS
        return is_spent or is_large


class Scans:
    """The function GetItems. Scans give way to other requests every few nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get_items(self, call: FunctionCall) -> web.Response:
        """Return a page of items. Only the last page may be empty: published cursors stop at one."""
        top = self._store.nodes.existing(call.address)
        if not top.is_directory:
            raise not_a_directory()
        scan = _scan(call)
        try:
            items, marker = await self._page(top.path, scan)
        except MalformedError as error:
            raise invalid_argument(f"FilterExpression: {error}") from error
        is_last = not marker
        return json_answer(
            {"Items": items, "LastItemIncluded": str(is_last).upper()}
            | ({} if is_last else {"NextMarker": marker})
        )

    async def _page(self, folder: str, scan: _Scan) -> tuple[list[dict[str, Any]], str]:
        """Return a page's items, and the name to go on behind; empty where nothing can follow."""
        page, after, before = _Page(scan), scan.after, None
        # Over once a turn has passed no further name.
        while after != before:
            # A page may take long, and there is one thread: it goes on from the last name after each turn.
            before, turn_ends = after, page.steps + _STEPS_AT_ONCE
            for node in self._store.nodes.children(folder, after, _NODES_AT_ONCE, start=scan.start):
                if scan.end and node.name >= scan.end:
                    return page.items, ""
                after = node.name
                page.take(node)
                if page.is_full():
                    return page.items, base64.b64encode(after.encode()).decode()
                if page.steps > turn_ends:
                    break
            await asyncio.sleep(0)
        return page.items, ""


def _scan(call: FunctionCall) -> _Scan:
    segments = call.whole("TotalSegment", 0, _MAX_SEGMENTS, 0) or 1
    key = call.text("ShardingKey")
    start, end = _range(call, key) if key else ("", "")
    return _Scan(
        names_in(call.text("AttributesToGet")),
        call.text("FilterExpression"),
        start,
        end,
        _marked(call.text("Marker")),
        call.whole("Limit", 0, 1 << 62, _MAX_ITEMS) or _MAX_ITEMS,
        call.whole("Segment", 0, segments - 1, 0),
        segments,
    )


def _range(call: FunctionCall, key: str) -> tuple[str, str]:
    """Return the range of names of a sharding key. Names are KEY.SORTKEY; the end isn't in the range."""
    # Without an end, all sort keys of the sharding key from the start on.
    start, end = call.text("SortKeyRangeStart"), call.text("SortKeyRangeEnd")
    behind_all = f"{key}/"  # a slash comes after the dot, and is in no name
    return f"{key}.{start}", f"{key}.{end}" if end else behind_all


def _marked(marker: str) -> str:
    try:
        return base64.b64decode(marker, validate=True).decode()
    except ValueError as error:
        raise invalid_argument("Marker is none that GetItems gave") from error
