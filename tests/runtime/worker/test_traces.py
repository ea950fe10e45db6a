"""Spans of real workers, as a collector gets them over HTTP."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_bench import batch_bench, fresh
from collector import QUICK, Collector, attributes_of, collector
from http_function import http_function
from worker_bench import Record, bench, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.wire.produce import DeliveryCallback, DeliveryReport, Message
from headrace.runtime.worker.tracing import NoTraces, traces_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
ERROR, CONSUMER, SERVER = 2, 5, 2


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as it:
        for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": it.url, **QUICK}.items():
            monkeypatch.setenv(name, value)
        yield it


def traced_records(count: int) -> list[Record]:
    headers = [("traceparent", PARENT.encode()), ("Other", b"x")]
    return [Record(offset, str(offset).encode(), headers=headers) for offset in range(count)]


@pytest.mark.parametrize("word", ["", "async "])
async def test_each_call_is_a_span_that_links_to_its_producers(
    tmp_path: Path, traces: Collector, word: str
) -> None:
    handler = f"""
        from opentelemetry import trace

        async def inner():
            with trace.get_tracer("mine").start_as_current_span("inner"):
                pass

        {word}def handler(context, event):
            with trace.get_tracer("mine").start_as_current_span("own"):
                asyncio.create_task(inner())
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("orders", 3))
        b.feed(p, traced_records(2))
        await b.settled(p, 2)
        await until(lambda: [len(traces.named(it)) for it in ("process orders", "own", "inner")] == [2, 2, 2])
    first, second = sorted(traces.named("process orders"), key=lambda it: it.start_time_unix_nano)
    assert attributes_of(first) == {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.offset": 0,
        "headrace.attempt": 1,
    }
    assert [(it.trace_id.hex(), it.span_id.hex()) for it in first.links] == [(TRACE, SPAN)]
    assert (first.kind, first.parent_span_id, first.status.code) == (CONSUMER, b"", 0)
    assert len({TRACE, first.trace_id.hex(), second.trace_id.hex()}) == 3
    owns, inners = traces.named("own"), traces.named("inner")
    assert {it.parent_span_id for it in owns} == {first.span_id, second.span_id}
    assert {it.parent_span_id for it in inners} == {it.span_id for it in owns}


@pytest.mark.parametrize("word", ["", "async "])
async def test_a_handler_that_fails_makes_its_span_an_error(
    tmp_path: Path, traces: Collector, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = f"""
        {word}def handler(context, event):
            if event.attempt == 1:
                raise ValueError("not yet")
            if event.attempt == 2:
                return context.Response(status_code=503)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, traced_records(1))
        await b.settled(p, 1)
        await until(lambda: len(traces.named("process t")) == 3)
    spans = sorted(traces.named("process t"), key=lambda it: it.start_time_unix_nano)
    assert [it.status.code for it in spans] == [ERROR, ERROR, 0]
    assert [attributes_of(it).get("error.type") for it in spans] == ["ValueError", "503", None]
    assert spans[0].status.message == "ValueError: not yet"
    assert [[event.name for event in it.events] for it in spans] == [["exception"], [], []]
    [failure] = [it for it in caplog.records if "failed at attempt 1" in it.getMessage()]
    assert "spans.py" not in failure.__dict__["error"]  # the user's own frames, as ever


async def test_records_that_run_at_once_have_spans_of_their_own(tmp_path: Path, traces: Collector) -> None:
    handler = """
        from opentelemetry import trace

        async def handler(context, event):
            write("in")
            while not exists("go"):
                await asyncio.sleep(0.005)
            trace.get_current_span().set_attribute("mine", event.shard_id)
    """
    async with bench(tmp_path, handler, policy=DeliveryPolicy(max_concurrency=4)) as b:
        partitions = b.assign(*[("t", number) for number in range(4)])
        for partition in partitions:
            b.feed(partition, traced_records(1))
        await until(lambda: len(b.lines()) == 4)
        (tmp_path / "go").touch()
        await until(lambda: len(traces.named("process t")) == 4)
    found = [attributes_of(it) for it in traces.named("process t")]
    assert all(it["messaging.destination.partition.id"] == str(it["mine"]) for it in found)


async def test_a_batch_is_one_span_with_a_link_for_each_record(tmp_path: Path, traces: Collector) -> None:
    handler = """
        def handler(context, events):
            pass
    """
    async with batch_bench(tmp_path, handler, 3) as b:
        (p,) = b.assign(*fresh(1))
        b.bench.feed(p, traced_records(3))
        await b.settled(3, p)
        await until(lambda: traces.named("process t"))
    (span,) = traces.named("process t")
    assert attributes_of(span)["messaging.batch.message_count"] == 3
    assert [it.span_id.hex() for it in span.links] == [SPAN] * 3


async def test_a_request_is_a_child_of_its_callers_span(tmp_path: Path, traces: Collector) -> None:
    handler = """
        def handler(context, event):
            return context.Response(status_code=int(event.path.strip("/")))
    """
    async with http_function(tmp_path, handler) as function:
        for status in (201, 500):
            await function.ask(f"/{status}", headers={"traceparent": PARENT})
        await until(lambda: len(traces.named("GET")) == 2)
    spans = sorted(traces.named("GET"), key=lambda it: it.start_time_unix_nano)
    assert [(it.trace_id.hex(), it.parent_span_id.hex(), it.kind) for it in spans] == [
        (TRACE, SPAN, SERVER)
    ] * 2
    assert [attributes_of(it)["http.response.status_code"] for it in spans] == [201, 500]
    assert attributes_of(spans[0])["url.path"] == "/201"
    assert [it.status.code for it in spans] == [0, ERROR]
    assert traces.services == {"f"}


class Cluster(Feed):
    """Keeps what it is asked to write, and confirms it at once."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        self.sent.append(message)
        done(DeliveryReport(0, len(self.sent)))


async def test_what_is_produced_carries_the_span(tmp_path: Path, traces: Collector) -> None:
    handler = """
        from opentelemetry import trace

        def handler(context, event):
            context.produce("t", b"plain")
            context.produce("t", b"told", headers={"traceparent": "mine"})
            write(trace.format_span_id(trace.get_current_span().get_span_context().span_id))
    """
    cluster = Cluster()
    async with bench(tmp_path, handler) as b:
        b.dispatcher.connect(cluster)
        (p,) = b.assign(("t", 0))
        b.feed(p, traced_records(1))
        await b.settled(p, 1)
        await until(lambda: traces.named("process t"))
    (span,) = traces.named("process t")
    plain, told = (dict(message.headers) for message in cluster.sent)
    _, trace_id, span_id, _ = (plain.pop("traceparent") or b"").decode().split("-")
    assert (trace_id, span_id, plain) == (span.trace_id.hex(), span.span_id.hex(), {})
    assert told == {"traceparent": b"mine"}
    assert b.lines() == [span.span_id.hex()]


async def test_a_provider_that_the_handler_has_set_is_used(tmp_path: Path, traces: Collector) -> None:
    handler = """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

        class Mine(SpanExporter):
            def export(self, spans):
                for span in spans:
                    write(span.name)

        def init_context(context):
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(Mine()))
            trace.set_tracer_provider(provider)

        def handler(context, event):
            pass
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, traced_records(2))
        await until(lambda: b.lines() == ["process t"] * 2)
    assert traces.spans == []


async def test_what_waits_leaves_as_the_worker_stops(
    tmp_path: Path, traces: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    async with bench(tmp_path, "def handler(context, event): pass") as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, traced_records(2))
        await b.settled(p, 2)
        await b.dispatcher.stop(60)
        assert len(traces.named("process t")) == 2


async def test_nothing_is_imported_where_nothing_is_asked_for(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write([name for name in sys.modules if name.startswith("opentelemetry")])
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, traced_records(1))
        await b.settled(p, 1)
        assert b.lines() == ["[]"]


async def test_an_exporter_that_is_not_there_is_a_line_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier_pigeon")
    caplog.set_level(logging.WARNING)
    async with bench(tmp_path, "def handler(context, event): pass") as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, traced_records(1))
        await b.settled(p, 1)
    (line,) = [it.getMessage() for it in caplog.records]
    assert line.startswith("spans don't go to exporter carrier_pigeon")


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OTEL_SERVICE_NAME": "f"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
    ],
)
def test_only_what_says_where_spans_go_asks_for_them(env: dict[str, str]) -> None:
    assert isinstance(traces_of(env), NoTraces)


def test_without_the_library_a_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "headrace.runtime.worker.spans", None)
    assert isinstance(traces_of({"OTEL_TRACES_EXPORTER": "otlp"}), NoTraces)
    assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in caplog.text
