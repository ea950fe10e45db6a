"""MetricRegistry of a handler's own: from its worker to a scrape, bounded, and never back."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from http_function import write_http_function
from prometheus_client import generate_latest
from replica import Replica, replica, wait_until
from worker_bench import Bench, bench, kill_worker, records, until

from headrace.runtime.metrics.custom_metric import MAX_LABEL_SETS, CustomMetric, CustomSample
from headrace.runtime.metrics.custom_metrics import CustomMetrics
from headrace.runtime.metrics.declaration import TRIGGER_LABELS
from headrace.runtime.metrics.runtime_metrics import METRICS, MetricRegistry
from headrace.runtime.wire.framing import FrameKind, json_frame, split_frames
from headrace.runtime.wire.metrics import decode_metrics, encode_metrics
from headrace.runtime.worker.api.metrics import HandlerMetrics as GivenMetrics
from headrace.testing import Record, run_handler

COUNTS = """
    def init_context(context):
        it = context.user_data
        it.seen = context.metrics.counter("seen", "Records that were seen.", ["parity"])
        it.pids = context.metrics.gauge("pids", labels=["pid"])
        it.sizes = context.metrics.histogram("sizes", buckets=[1, 2])

    def handler(context, event):
        it = context.user_data
        it.seen.inc(parity=event.offset % 2)
        it.pids.set(event.offset, pid=os.getpid())
        it.sizes.observe(len(event.body))
"""


def samples(metrics: MetricRegistry | CustomMetrics, name: str) -> dict[tuple[str, ...], float]:
    """By the values of labels, without the trigger's own."""
    custom = metrics.custom if isinstance(metrics, MetricRegistry) else metrics
    return {
        tuple(value for label, value in sample.labels.items() if label not in TRIGGER_LABELS): sample.value
        for family in custom.collect()
        for sample in family.samples
        if sample.name == name
    }


def total(b: Bench) -> float:
    return sum(samples(b.metrics, "seen_total").values())


async def test_what_workers_count_is_summed_and_shown_beside_the_runtimes(tmp_path: Path) -> None:
    async with bench(tmp_path, COUNTS, workers=2, static=True) as b:
        for partition in b.assign(("t", 0), ("t", 1)):
            b.feed(partition, records(0, 11))
        await until(lambda: samples(b.metrics, "sizes_count") == {(): 22})  # of each worker the last to come
        assert samples(b.metrics, "seen_total") == {("0",): 12, ("1",): 10}
        assert samples(b.metrics, "sizes_bucket") == {("1.0",): 20, ("2.0",): 22, ("+Inf",): 22}
        assert samples(b.metrics, "sizes_sum") == {(): 24}
        pids = {(str(it.index), str(it.pid)): 10.0 for it in b.dispatcher.workers}
        assert samples(b.metrics, "pids") == pids
        scraped = generate_latest(b.metrics.registry).decode()
    assert "# HELP seen_total Records that were seen.\n# TYPE seen_total counter" in scraped
    owner = dict(zip(TRIGGER_LABELS, ("", "nuclio", "default", "f", "kafka-cluster", "t"), strict=True))
    assert b.metrics.registry.get_sample_value("seen_total", owner | {"parity": "0"}) == 12


async def test_counters_outlive_their_worker_and_gauges_do_not(tmp_path: Path) -> None:
    async with bench(tmp_path, COUNTS) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 10))
        await until(lambda: samples(b.metrics, "sizes_count") == {(): 10})
        kill_worker(b)
        await until(lambda: b.dispatcher.workers[0].restarts == 1)
        assert total(b) == 10
        assert samples(b.metrics, "pids") == {}
        b.feed(p, records(10, 5))
        await until(lambda: samples(b.metrics, "sizes_count") == {(): 15})  # the last to come
        assert total(b) == 15
        assert samples(b.metrics, "pids") == {("0", str(b.dispatcher.workers[0].pid)): 14}


async def test_a_long_handler_is_seen_counting(tmp_path: Path) -> None:
    handler = """
        def init_context(context):
            context.user_data.steps = context.metrics.counter("seen", labels=["step"])

        def handler(context, event):
            context.user_data.steps.inc(step="first")
            wait_for("go")
            context.user_data.steps.inc(2, step="second")
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(lambda: samples(b.metrics, "seen_total") == {("first",): 1})
        (tmp_path / "go").touch()
        await b.settled(p, 1)
        b.dispatcher.announce_stop()
        await b.dispatcher.stop(10)  # what is left leaves with its worker
        assert samples(b.metrics, "seen_total") == {("first",): 1, ("second",): 2}


async def test_sets_of_labels_are_bounded_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        def init_context(context):
            context.user_data.ids = context.metrics.counter("ids", labels=["id"])

        def handler(context, event):
            for number in range(1500):
                context.user_data.ids.inc(id=f"{event.offset}-{number}")
            context.user_data.ids.inc(id="0-0")
    """
    caplog.set_level(logging.WARNING)
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 2))
        await b.settled(p, 2)
        await until(lambda: samples(b.metrics, "ids_total").get(("0-0",)) == 3)
        assert len(samples(b.metrics, "ids_total")) == MAX_LABEL_SETS
    told = [record.getMessage() for record in caplog.records]
    assert told == ["metric ids has 1000 sets of labels' values, as many as it may: new ones aren't counted"]


def test_of_several_workers_too_no_more_than_that_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    custom, measure = CustomMetrics(), CustomMetric("counter", "ids", "", ("id",))
    for worker in range(3):
        custom.add(
            (("trigger_id", "t"),), worker, measure, [CustomSample((f"{worker}-{n}",), 1) for n in range(600)]
        )
    assert len(samples(custom, "ids_total")) == MAX_LABEL_SETS
    assert len(caplog.records) == 1
    custom.add((("trigger_id", "other"),), 0, measure, [CustomSample(("0",), 1)])
    assert len(samples(custom, "ids_total")) == MAX_LABEL_SETS + 1


def test_a_name_is_one_metric(caplog: pytest.LogCaptureFixture) -> None:
    custom = CustomMetrics()
    custom.add((), 0, CustomMetric("counter", "orders"), [CustomSample((), 1)])
    custom.add((), 0, CustomMetric("counter", "orders", "", ("country",)), [CustomSample(("de",), 1)])
    custom.add((), 0, CustomMetric("gauge", "orders_total"), [CustomSample((), 7)])
    assert samples(custom, "orders_total") == {(): 1}
    said = "of the handler's metric {} this isn't published: it is declared as another one already, {}"
    first = "orders (counter; labels: none)"
    assert [record.getMessage() for record in caplog.records] == [
        said.format("orders (counter; labels: country)", first),
        said.format("orders_total (gauge; labels: none)", first),
    ]


@pytest.fixture
def given() -> GivenMetrics:
    return GivenMetrics(lambda _: None)


@pytest.mark.parametrize(
    ("name", "labels", "says"),
    [
        ("headrace_x", [], "are Headrace's own"),
        ("nuclio_x", [], "are Headrace's own"),
        ("process_x", [], "are Headrace's own"),
        ("1st", [], "is no name: letters, digits, _ and :, at most 200"),
        ("", [], "is no name"),
        ("a b\nc", [], "is no name"),
        ("x", ["trigger_id"], "the label 'trigger_id' is Headrace's own"),
        ("x", ["le"], "the label 'le' is Headrace's own"),
        ("x", ["a-b"], "'a-b' is no name of a label"),
        ("x", ["a", "a"], "a label is there twice"),
        ("x", [f"l{n}" for n in range(11)], "has more than 10 labels"),
        ("x", "country", "labels is a text; expected a list of names, such as ['country']"),
    ],
)
def test_what_can_not_be_is_refused_in_one_line(
    given: GivenMetrics, name: str, labels: Any, says: str
) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        given.counter(name, labels=labels)
    assert says in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_all_names_and_labels_of_ours_are_refused() -> None:
    for metric in METRICS:
        with pytest.raises(ValueError, match="Headrace's own"):
            CustomMetric("gauge", metric.name)
    for label in (*TRIGGER_LABELS, "worker_index"):
        with pytest.raises(ValueError, match="Headrace's own"):
            CustomMetric("gauge", "x", "", (label,))


def test_a_metric_is_declared_once_and_may_be_asked_for_again(given: GivenMetrics) -> None:
    assert given.counter("orders_total", "Orders") is given.counter("orders", "Orders")
    with pytest.raises(ValueError, match="'orders' is declared already, in other words"):
        given.counter("orders", "Orders", ["country"])
    with pytest.raises(ValueError, match="'orders' is declared already, in other words"):
        given.gauge("orders", "Orders")
    with pytest.raises(ValueError, match="orders_total is shown by another one"):
        given.gauge("orders_total")


def test_only_what_can_be_is_counted(given: GivenMetrics) -> None:
    counter, sizes = given.counter("c", labels=["country"]), given.histogram("h")
    with pytest.raises(ValueError, match="metric c: its labels are country, not none"):
        counter.inc()
    for amount in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="can't be added to a counter"):
            counter.inc(amount, country="de")
    with pytest.raises(ValueError, match="nan can't be observed"):
        sizes.observe(float("nan"))
    for buckets in ([], [2, 1], [1, 1], [float("inf")]):
        with pytest.raises(ValueError, match="buckets are 1 to 50 numbers that rise"):
            given.histogram("other", buckets=buckets)


def test_a_handler_under_test_counts_too() -> None:
    def begin(context: Any) -> None:
        context.user_data.orders = context.metrics.counter("orders_total", labels=["country"])
        context.user_data.open = context.metrics.gauge("open")
        context.user_data.amounts = context.metrics.histogram("amounts")

    def handler(context: Any, event: Any) -> None:
        order = json.loads(event.body)
        context.user_data.orders.inc(country=order["country"])
        context.user_data.amounts.observe(order["amount"])
        context.user_data.open.inc(3)
        context.user_data.open.dec()

    orders = [Record(json.dumps({"country": it, "amount": 2}).encode()) for it in ("de", "fr", "de")]
    run = run_handler(handler, orders, init_context=begin)
    assert run.failures == []
    assert run.metrics == {
        'orders_total{country="de"}': 2,
        'orders_total{country="fr"}': 1,
        "open": 6,
        "amounts_count": 3,
        "amounts_sum": 6,
    }


def _body(*about: Any) -> bytes:
    return json_frame(FrameKind.METRICS, about)[8:]


def test_a_frame_is_what_was_counted() -> None:
    measure = CustomMetric("histogram", "h", "what", ("a",), (1.0, 2.0))
    said = [CustomSample((str(n),), n / 2, (n, 0, 1)) for n in range(120)]
    frames = [body for data in encode_metrics(measure, said) for _, body in split_frames(bytearray(data))]
    assert [decode_metrics(body)[0] for body in frames] == [measure] * 3
    assert [sample for body in frames for sample in decode_metrics(body)[1]] == said


@pytest.mark.parametrize(
    "body",
    [
        _body(["counter", "x", "", [], []], [[[], -1, []]]),
        _body(["counter", "x", "", [], []], [[[], float("inf"), []]]),
        _body(["counter", "x", "", [], []], [[["de"], 1, []]]),
        _body(["counter", "headrace_retries", "", [], []], [[[], 1, []]]),
        _body(["histogram", "x", "", [], [1]], [[[], 1, [1]]]),
        _body(["histogram", "x", "", [], [1]], [[[], 1, [1, -1]]]),
        _body(["gauge", "x", "", [], []], [[[], "many", []]]),
        _body(["gauge", "x", "", ["a"], []], [[[7], 1, []]]),
        _body(["summary", "x", "", [], []], []),
        b"nonsense",
    ],
)
def test_what_a_worker_can_not_have_counted_is_not_taken_in(body: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode_metrics(body)


def test_replicas_publish_what_their_handlers_count(tmp_path: Path) -> None:
    handler = """
        def init_context(context):
            context.metrics.counter("started_total", "Workers that have started.").inc()

        def handler(context, event):
            pass
    """
    write_http_function(tmp_path, handler, numWorkers=2)

    def shown(running: Replica) -> list[str]:
        return [line for line in running.get("/metrics")[1].splitlines() if line.startswith("started_total{")]

    with replica(tmp_path, log=tmp_path / "run.log") as running:
        running.wait_ready()
        wait_until(lambda: [line.rpartition(" ")[2] for line in shown(running)] == ["2.0"], about=running)
        assert 'trigger_id="web"' in shown(running)[0]
