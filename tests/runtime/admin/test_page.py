"""The page at `/`, in a real browser: charts, time line, map, halted partitions, log; what it never shows."""

import os
from pathlib import Path

import pytest
from admin_asked import ask
from broker import Broker
from browser import browse, browser
from fake_processor import FakeProcessor
from kafka_records import produce
from replica import Replica, lines, replica, wait_until, write_function
from root import ROOT

from headrace.runtime.admin.server import admin_server
from headrace.runtime.admin.token import AdminToken
from headrace.runtime.metrics.history import History
from headrace.runtime.web.addresses import TcpAddress

KEPT = ROOT / "docs/operate"
MAKES_DOCS = bool(os.environ.get("HEADRACE_SCREENSHOTS"))
TOKEN = "screenshots"  # of a run that ends with the test
HANDLER = """
    def handler(context, event):
        if event.shard_id == 3 and event.offset == 20:
            raise ValueError("<b id=hostile>the order has no price</b>")
        time.sleep(0.002)
        write(event.offset)
"""
WIDE, PHONE = "1280,1500", "390,1900"


def look(running: Replica, *options: str) -> str:
    return browse(f"{running.url}/#token={TOKEN}", "--virtual-time-budget=2500", *options)


def dom(running: Replica) -> str:
    return look(running, "--dump-dom")


def shoot(running: Replica, folder: Path, name: str, size: str = WIDE, *options: str) -> None:
    """HEADRACE_SCREENSHOTS=1 has those of docs/ made anew."""
    path = (KEPT if MAKES_DOCS else folder) / f"page-{name}.png"
    look(running, f"--window-size={size}", f"--screenshot={path}", *options)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


@pytest.mark.full
def test_the_page_shows_a_run_under_load_in_a_rebalance_and_halted(broker: Broker, tmp_path: Path) -> None:
    browser()
    topic = "orders" if MAKES_DOCS else broker.create_topic(8)
    broker.create(topic)
    folder = write_function(
        tmp_path / "f",
        HANDLER,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        onFailure={"maxAttempts": 2},
    )
    variables = {"HEADRACE_ADMIN_TOKEN": TOKEN}
    with replica(folder, "--replicas", "2", name="-a", variables=variables) as running:
        running.wait_ready()
        produce(broker, topic, 16_000)
        wait_until(lambda: len(lines(folder)) > 4000, about=running)
        shoot(running, tmp_path, "load")
        wait_until(lambda: "halted" in running.get("/ready")[1], about=running)
        with replica(folder, name="-b") as other:
            wait_until(lambda: other.trigger()["partitions"], about=other)
            wait_until(lambda: "revoked" in running.get("/api/recent")[1], about=running)
            shoot(running, tmp_path, "rebalance")
            assert other.stop() == 0
        wait_until(lambda: "halted" in running.get("/ready")[1], about=running)
        shoot(running, tmp_path, "halted")
        shoot(running, tmp_path, "phone", PHONE)
        shoot(running, tmp_path, "dark", WIDE, "--blink-settings=preferredColorScheme=0")
        seen = dom(running)
        assert running.stop() == 0
    assert f"{topic}/3 is halted at offset 20" in seen
    assert f"headrace partition retry {topic}/3" in seen
    assert "&lt;b id=hostile&gt;the order has no price" in seen  # text, and only with the token
    assert 'id="hostile"' not in seen
    assert "<th>body</th><td>163.....</td>" in seen
    where = f"--brokers {broker.bootstrap}"
    assert f"headrace kafka consume {where} --topic {topic} --partition 3 --offset 20 --count 1" in seen
    assert f"headrace kafka seek group-{topic} {topic}/3 --to 21 {where}" in seen
    assert ">Retry</button>" in seen
    assert seen.count("<polyline") >= 2
    assert "revoked: " in seen
    assert "assigned: " in seen
    assert "replica-1 · f/records" in seen
    assert "worker 1" in seen
    assert seen.count("chip") >= 8
    assert "INFO" in seen


async def test_the_page_asks_this_server_alone() -> None:
    async with admin_server(FakeProcessor({3}, {3}), TcpAddress("127.0.0.1", 0)) as url:
        status, page = await ask(url, "/", "GET")
        assert status == 200
        for path in ("/page.css", "/page.js"):
            assert path in page
            status, text = await ask(url, path, "GET")
            assert status == 200
            assert "://" not in text.replace("http://www.w3.org/2000/svg", "")  # which is a name
    assert "http" not in page


async def test_the_log_is_for_those_with_the_token() -> None:
    processor = FakeProcessor({3}, {3}, reason="card 4111 is expired")
    async with admin_server(processor, TcpAddress("127.0.0.1", 0), AdminToken("t")) as url:
        _, seen = await ask(url, "/api/recent", "GET")
        _, shown = await ask(url, "/api/recent", "GET", {"Authorization": "Bearer t"})
    assert seen["replicas"][0]["log"] is None
    assert shown["replicas"][0]["log"] == [{"text": "card 4111 is expired"}]


def test_what_is_kept_of_a_trigger_is_bounded() -> None:
    history = History(now=lambda: 12.0)
    for number in range(5000):
        history.sample(number, number, 0)
        history.note("restart", f"worker {number}: died")
    kept = history.json()
    assert (len(kept["samples"]), len(kept["events"])) == (600, 100)
    assert kept["samples"][-1] == (12.0, 4999, 4999, 0)
