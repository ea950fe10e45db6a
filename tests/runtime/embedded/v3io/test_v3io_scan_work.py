"""How much work a page of a scan is: bounded in steps, and others have their turn meanwhile."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.embedded.v3io import scans
from headrace.runtime.embedded.v3io.calls import FunctionCall
from headrace.runtime.embedded.v3io.errors import ApiError
from headrace.runtime.embedded.v3io.nodes import Address, NodeKind
from headrace.runtime.embedded.v3io.scans import Scans
from headrace.runtime.embedded.v3io.store import open_store


@pytest.fixture
def scan(tmp_path: Path) -> Iterator[Scans]:
    """Of a hundred items, whose attribute `n` counts."""
    store = open_store(tmp_path, ["c"])
    with store.database.transaction():
        for number in range(100):
            node = store.nodes.make(Address("c", f"{number:02}"), NodeKind.FILE)
            store.nodes.touch(node, attributes=json.dumps({"n": {"N": str(number)}}))
    yield Scans(store)
    store.database.close()


async def page(scan: Scans, **fields: str) -> dict[str, Any]:
    answer = await scan.get_items(FunctionCall(Address("", "c"), json.dumps(fields).encode()))
    assert isinstance(answer.body, bytes)
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def test_a_page_ends_where_its_steps_do_and_the_next_one_goes_on(
    scan: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "_MAX_STEPS", 100)
    found, pages, marker = list[str](), 0, dict[str, str]()
    while True:
        answer = await page(scan, FilterExpression="n >= 0", **marker)
        found += [item["n"]["N"] for item in answer["Items"]]
        pages += 1
        if answer["LastItemIncluded"] == "TRUE":
            break
        marker = {"Marker": answer["NextMarker"]}
    assert found == [str(number) for number in range(100)]
    assert pages > 4


async def test_a_scan_that_finds_nothing_in_all_its_steps_is_refused(
    scan: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await page(scan, FilterExpression="n < 0"))["Items"] == []
    monkeypatch.setattr(scans, "_MAX_STEPS", 100)
    with pytest.raises(ApiError, match="FilterExpression: no item fits among those that 100 steps get over"):
        await page(scan, FilterExpression="n < 0")


async def test_others_have_their_turn_while_a_long_filter_is_asked(
    scan: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "_STEPS_AT_ONCE", 100)
    asked, turns = asyncio.create_task(page(scan, FilterExpression="n < 0 OR n < 0 OR n < 0")), 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    assert (await asked)["Items"] == []
