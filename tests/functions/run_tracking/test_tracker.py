"""The client: nothing it was told is lost or said in another order, whatever the connection does."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import WSMsgType, web

from headrace.functions.run_tracking.client import outbox
from headrace.functions.run_tracking.client.__main__ import Training
from headrace.functions.run_tracking.client.outbox import TrackerError
from headrace.functions.run_tracking.client.tracker import RunTracker
from headrace.functions.run_tracking.messages.items import read_frame

OK = '{"status":"ok","error":null}'
AGAIN = '{"status":"error","error":"Kafka has not confirmed it in time: send it again"}'


class Frontier:
    """Says to each frame what `replies` has next, then ok. None cuts the connection off without a reply."""

    def __init__(self) -> None:
        self.frames: list[list[dict[str, Any]]] = []
        """All that have come, whatever the reply."""
        self.taken: list[dict[str, Any]] = []
        """Those of frames with `ok`, or whose reply was lost."""
        self.replies: list[str | None] = []
        self.refuses: Callable[[dict[str, Any]], bool] = lambda _: False
        self.gate = asyncio.Event()
        self.gate.set()
        self.uploads: dict[str, bytes] = {}
        self.upload_statuses: list[int] = []
        self.connections = 0
        self.url = ""

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        self.connections += 1
        socket = web.WebSocketResponse(max_msg_size=16 * 1024**2)
        await socket.prepare(request)
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            await self.gate.wait()
            reply = self._reply(request.match_info["run_id"], message.data)
            if reply is None:
                await socket.close()
            else:
                await socket.send_str(reply)
        return socket

    def _reply(self, run_id: str, text: str) -> str | None:
        read_frame(run_id, text)  # the frontier's own reading: all is what it takes
        items = json.loads(text)
        self.frames.append(items)
        if any(map(self.refuses, items)):
            return '{"status":"error","error":"it is bad"}'
        reply = self.replies.pop(0) if self.replies else OK
        if reply in {OK, None}:
            self.taken += items
        return reply

    async def presign(self, request: web.Request) -> web.Response:
        asked = await request.json()
        key = f"{asked['run_id']}/{asked['artifact_path']}"
        said = {
            "upload_url": f"{self.url}/put/{quote(key)}?signature=a%2Bb",
            "s3_key": key,
            "headers": {"X-Also": "1"},
        }
        return web.json_response(said)

    async def put(self, request: web.Request) -> web.Response:
        assert request.headers["X-Also"] == "1"
        assert request.raw_path.endswith("?signature=a%2Bb")
        status = self.upload_statuses.pop(0) if self.upload_statuses else 200
        if status == 200:
            self.uploads[request.match_info["key"]] = await request.read()
        return web.Response(status=status, text="because")


@pytest.fixture
async def frontier() -> AsyncIterator[Frontier]:
    found = Frontier()
    app = web.Application()
    app.add_routes(
        [
            web.get("/api/v1/ws/runs/{run_id}", found.socket),
            web.post("/api/v1/rest/artifacts/presign", found.presign),
            web.put("/put/{key:.+}", found.put),
        ]
    )
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    found.url = f"http://{host}:{port}"
    yield found
    await runner.cleanup()


def tracker_of(frontier: Frontier, **options: Any) -> RunTracker:
    return RunTracker(frontier.url, "r1", **{"give_up_after_seconds": 20.0, **options})


def lines(items: list[dict[str, Any]]) -> list[int]:
    return [item["step"] for item in items if item["type"] == "log_terminal_line"]


async def test_all_kinds_arrive_in_order_as_the_frontier_reads_them(frontier: Frontier) -> None:
    async with tracker_of(frontier) as tracker:
        await tracker.create_run()
        await tracker.log_hparams({"lr": 0.1})
        await tracker.log_metric("loss", 0.5, 3, 1, {"subset": "train"})
        await tracker.log_metric("loss", math.nan)
        await tracker.log_terminal_line("hello", 0)
        await tracker.log_record("hello", 30, extra_args={"a": 1})
        await tracker.log_custom_object("image", {"s3_key": "r1/i"}, dtype="image")
        await tracker.set_property(name="first", experiment="baseline")
        await tracker.add_tag("good")
        await tracker.remove_tag("good")
        await tracker.upload_artifact("models/a b.bin", b"weights", "application/x-weights")
        await tracker.finish()
    assert [item["type"] for item in frontier.taken] == [
        "create_run",
        "log_hparams",
        "log_metric",
        "log_metric",
        "log_terminal_line",
        "log_record",
        "log_custom_object",
        "set_run_property",
        "add_tag",
        "remove_tag",
        "blob_ref",
        "finish_run",
    ]
    assert frontier.taken[3]["value"] == "NaN"
    assert frontier.uploads == {"r1/models/a b.bin": b"weights"}
    assert tracker.acknowledged == 12


async def test_a_frame_has_100_items_at_most(frontier: Frontier) -> None:
    async with tracker_of(frontier) as tracker:
        for step in range(450):
            await tracker.log_terminal_line("x", step)
    assert lines(frontier.taken) == list(range(450))
    assert max(map(len, frontier.frames)) == outbox.MOST_ITEMS
    assert len(frontier.frames) < 50


async def test_large_items_share_no_frame_that_would_be_too_large(frontier: Frontier) -> None:
    async with tracker_of(frontier) as tracker:
        for step in range(12):
            await tracker.log_terminal_line("x" * 900_000, step)
    assert lines(frontier.taken) == list(range(12))
    assert max(map(len, frontier.frames)) == 4


async def test_a_frame_whose_reply_was_lost_comes_again_with_the_same_identities(frontier: Frontier) -> None:
    frontier.replies = [OK, None, None, OK]
    async with tracker_of(frontier) as tracker:
        await tracker.log_terminal_line("x", 0)
        await tracker.flush()
        await tracker.log_metric("loss", 1.0)
        await tracker.flush()
    assert frontier.connections == 3
    first, second, third = (frame[0]["message_id"] for frame in frontier.frames[1:])
    assert first == second == third != frontier.frames[0][0]["message_id"]
    assert frontier.frames[1] == frontier.frames[2]


async def test_a_frame_that_is_to_be_sent_again_is_on_the_same_connection(frontier: Frontier) -> None:
    frontier.replies = [AGAIN, AGAIN, OK]
    async with tracker_of(frontier) as tracker:
        await tracker.log_terminal_line("x", 0)
    assert frontier.connections == 1
    assert len(frontier.frames) == 3
    assert lines(frontier.taken) == [0]


async def test_many_losses_change_neither_order_nor_number(frontier: Frontier) -> None:
    frontier.replies = [None, OK, AGAIN, OK, None, None, OK, AGAIN, None]
    async with tracker_of(frontier, max_queued_items=20) as tracker:
        for step in range(300):
            await tracker.log_terminal_line("x", step)
    once = {item["message_id"]: item for item in frontier.taken}
    assert lines(list(once.values())) == list(range(300))
    assert tracker.acknowledged == 300


async def test_an_item_that_is_refused_takes_no_other_one_with_it(frontier: Frontier) -> None:
    frontier.refuses = lambda item: item.get("line") == "bad"
    tracker = await tracker_of(frontier).__aenter__()
    for step, line in enumerate(("good", "bad", "good")):
        await tracker.log_terminal_line(line, step)
    with pytest.raises(TrackerError, match=r"^it is bad$"):
        await tracker.close()
    assert lines(frontier.taken) == [0, 2]
    assert tracker.acknowledged == 2


async def test_the_call_after_a_refusal_is_told_of_it_once(frontier: Frontier) -> None:
    frontier.refuses = lambda item: item.get("line") == "bad"
    async with tracker_of(frontier) as tracker:
        await tracker.log_terminal_line("bad", 0)
        with pytest.raises(TrackerError, match="it is bad"):
            await tracker.flush()
        await tracker.log_terminal_line("good", 1)
    assert lines(frontier.taken) == [1]


async def test_who_logs_faster_than_the_frontier_takes_it_waits(frontier: Frontier) -> None:
    frontier.gate.clear()
    async with tracker_of(frontier, max_queued_items=5) as tracker:

        async def log() -> None:
            for step in range(outbox.MOST_ITEMS + 50):
                await tracker.log_terminal_line("x", step)

        logging = asyncio.create_task(log())
        done, _ = await asyncio.wait([logging], timeout=0.5)
        assert not done
        frontier.gate.set()
        await logging
    assert lines(frontier.taken) == list(range(outbox.MOST_ITEMS + 50))


async def test_patience_ends_and_nobody_waits_for_room_forever(frontier: Frontier) -> None:
    frontier.replies = [AGAIN] * 100
    tracker = await tracker_of(frontier, max_queued_items=2, give_up_after_seconds=0.3).__aenter__()

    async def log() -> None:
        for step in range(1000):
            await tracker.log_terminal_line("x", step)

    with pytest.raises(TrackerError, match=r"given up after 0\.3 s"):
        await log()
    frontier.replies = []
    for late in (tracker.flush, tracker.finish, tracker.close):
        with pytest.raises(TrackerError, match="given up"):
            await late()


async def test_an_address_that_is_none_is_an_error_and_no_endless_wait() -> None:
    with pytest.raises(TrackerError):
        async with RunTracker("http://127.0.0.1:1", "r1", give_up_after_seconds=0.2) as tracker:
            await tracker.add_tag("x")


async def test_a_run_that_the_frontier_refuses_is_an_error_at_once(frontier: Frontier) -> None:
    with pytest.raises(TrackerError, match="404"):
        async with RunTracker(frontier.url + "/elsewhere", "r1") as tracker:
            await tracker.add_tag("x")


async def test_an_upload_that_fails_is_tried_again_before_anything_is_said_of_it(frontier: Frontier) -> None:
    frontier.upload_statuses = [503, 500]
    async with tracker_of(frontier) as tracker:
        await tracker.upload_artifact("a", b"1")
    assert frontier.uploads == {"r1/a": b"1"}
    assert [item["type"] for item in frontier.taken] == ["blob_ref"]


async def test_an_upload_that_is_refused_leaves_no_reference(frontier: Frontier) -> None:
    frontier.upload_statuses = [403]
    async with tracker_of(frontier) as tracker:
        with pytest.raises(TrackerError, match="403 because"):
            await tracker.upload_artifact("a", b"1")
    assert frontier.taken == []


async def test_an_error_of_the_callers_own_ends_it_without_a_wait(frontier: Frontier) -> None:
    frontier.gate.clear()

    async def log() -> None:
        async with tracker_of(frontier) as tracker:
            await tracker.log_terminal_line("x", 0)
            await asyncio.sleep(0.1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await log()
    frontier.gate.set()


async def test_what_changes_after_a_call_is_not_that_calls(frontier: Frontier) -> None:
    values = {"lr": 0.1}
    async with tracker_of(frontier) as tracker:
        await tracker.log_hparams(values)
        values["lr"] = 0.2
    assert frontier.taken[0]["value"] == {"lr": 0.1}


async def test_a_made_up_run_learns_and_is_the_same_for_the_same_seed(frontier: Frontier) -> None:
    found = []
    for _ in range(2):
        frontier.taken = []
        async with tracker_of(frontier) as tracker:
            await Training(1, 120, "made up", seed=7).log(tracker)
        assert tracker.acknowledged == len(frontier.taken)
        found.append(
            [(it["name"], it["step"], it["value"]) for it in frontier.taken if "name" in it and "step" in it]
        )
    assert found[0] == found[1]
    losses = [value for name, _, value in found[0] if name == "loss"]
    accuracies = [value for name, _, value in found[0] if name == "accuracy"]
    assert len(losses) == len(accuracies) == 240
    assert sum(losses[:20]) > 2 * sum(losses[-20:])
    assert sum(accuracies[:20]) < sum(accuracies[-20:])
    assert set(frontier.uploads) == {"r1/report.json", "r1/models/weights.bin"}
