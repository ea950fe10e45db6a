"""How much handlers may publish together, whatever their workers say, and that a scrape holds up nobody."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_function import write_http_function
from prometheus_client import Metric as Family
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry
from replica import replica, wait_until

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.metrics.custom_metric import MAX_METRICS, MAX_SERIES, CustomMetric, CustomSample
from headrace.runtime.metrics.custom_metrics import CustomMetrics
from headrace.runtime.metrics.exposition import merge_expositions
from headrace.runtime.metrics.history import History
from headrace.runtime.metrics.runtime_metrics import MetricRegistry
from headrace.runtime.processor.processor import Processor
from headrace.runtime.wire.framing import FrameKind, json_frame, split_frames
from headrace.runtime.wire.metrics import decode_metrics
from headrace.runtime.worker.api import metrics as given_metrics
from headrace.runtime.worker.api.metrics import HandlerMetrics as GivenMetrics

OWNER = (("trigger_id", "t"),)


def lines_of(custom: CustomMetrics) -> list[str]:
    return [it for it in generate_latest(custom).decode().splitlines() if not it.startswith("#")]


def a_thousand(worker: int = 0) -> list[CustomSample]:
    return [CustomSample((f"{worker}-{number}",), 1) for number in range(1000)]


def test_all_metrics_of_a_replica_have_one_bound(caplog: pytest.LogCaptureFixture) -> None:
    custom = CustomMetrics()
    measures = [CustomMetric("counter", f"m{number}", "", ("id",)) for number in range(30)]
    assert [custom.add(OWNER, 0, measure, a_thousand()) for measure in measures] == [0] * 20 + [1000] * 10
    assert len(lines_of(custom)) == MAX_SERIES
    assert [len(record.getMessage()) < 300 for record in caplog.records] == [True]


def test_what_is_known_goes_on_where_there_is_no_room_for_more() -> None:
    custom, measure = CustomMetrics(), CustomMetric("counter", "m", "", ("id",))
    custom.add(OWNER, 0, measure, a_thousand())
    assert custom.add(OWNER, 0, measure, [CustomSample(("new",), 1), *a_thousand()]) == 1
    assert {line.rpartition(" ")[2] for line in lines_of(custom)} == {"2.0"}


def test_each_line_of_a_histogram_counts() -> None:
    custom, buckets = CustomMetrics(), tuple(map(float, range(50)))
    measure = CustomMetric("histogram", "h", "", ("id",), buckets)
    said = [CustomSample((str(number),), 1, (0,) * 51) for number in range(1000)]
    assert custom.add(OWNER, 0, measure, said) == 1000 - MAX_SERIES // 53
    assert MAX_SERIES - 53 < len(lines_of(custom)) <= MAX_SERIES


def test_gauges_that_go_with_their_worker_make_room() -> None:
    custom = CustomMetrics()
    gauges = [CustomMetric("gauge", f"m{number}", "", ("id",)) for number in range(20)]
    for gauge in gauges:
        assert custom.add(OWNER, 0, gauge, a_thousand()) == 0
    assert custom.add(OWNER, 1, gauges[0], a_thousand(1)) == 1000
    custom.forget_worker(OWNER, 0)
    assert custom.add(OWNER, 1, gauges[0], a_thousand(1)) == 0


def test_any_number_of_names_says_one_line(caplog: pytest.LogCaptureFixture) -> None:
    custom = CustomMetrics()
    for number in range(3 * MAX_METRICS):
        custom.add(OWNER, 0, CustomMetric("counter", f"m{number}"), [CustomSample((), 1)])
    assert len(lines_of(custom)) == MAX_METRICS
    assert len(caplog.records) == 1


def test_a_scrape_goes_on_while_a_new_metric_comes() -> None:
    custom = CustomMetrics()
    for number in range(2):
        custom.add(OWNER, 0, CustomMetric("counter", f"m{number}"), [CustomSample((), 1)])
    families = custom.collect()
    next(families)
    custom.add(OWNER, 0, CustomMetric("counter", "m2"), [CustomSample((), 1)])
    assert [family.name for family in families] == ["m1"]


def sent(use_given: GivenMetrics, frames: bytearray) -> list[tuple[CustomMetric, list[CustomSample], int]]:
    use_given.flush()
    return [decode_metrics(body) for _, body in split_frames(frames)]


@pytest.fixture
def frames() -> bytearray:
    return bytearray()


@pytest.fixture
def given(frames: bytearray) -> GivenMetrics:
    return GivenMetrics(frames.extend)


def test_a_worker_counts_what_it_drops(
    given: GivenMetrics, frames: bytearray, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(given_metrics, "MAX_SERIES", 20)
    first, second = given.counter("first", labels=["id"]), given.histogram("second", buckets=[1, 2])
    for number in range(18):
        first.inc(id=number)
    second.observe(1)
    first.inc(id="new")
    first.inc(id="new")
    first.inc(id="newer")
    first.inc(id="newest")
    told = [(measure.name, len(samples), dropped) for measure, samples, dropped in sent(given, frames)]
    assert told == [("first", 20, 0), ("first", 0, 1), ("second", 0, 1)]
    assert len(caplog.records) == 1


def test_a_worker_declares_as_many_metrics_as_it_may(given: GivenMetrics) -> None:
    for number in range(MAX_METRICS):
        given.counter(f"m{number}")
    with pytest.raises(ValueError, match=f"metric 'other': there are {MAX_METRICS} already") as raised:
        given.counter("other")
    assert len(str(raised.value).splitlines()) == 1
    assert given.counter("m0") is given.counter("m0")


def test_values_that_no_scrape_can_say_are_mended(given: GivenMetrics, frames: bytearray) -> None:
    given.counter("c", labels=["a"]).inc(a="\ud800" + "x" * 1000)
    [(measure, [sample], _)] = sent(given, frames)
    custom = CustomMetrics()
    custom.add(OWNER, 0, measure, [sample])
    assert lines_of(custom) == [f'c_total{{a="?{"x" * 199}",trigger_id="t"}} 1.0']
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        given.counter("other", "\ud800")


def test_sums_that_overflow_stay_what_a_scrape_takes(given: GivenMetrics, frames: bytearray) -> None:
    counter, sizes = given.counter("c"), given.histogram("h", buckets=[1])
    for _ in range(2):
        counter.inc(1.7e308)
        sizes.observe(-1.7e308)
    assert [samples[0].value for _, samples, _ in sent(given, frames)] == pytest.approx(
        [1.797e308, -1.797e308], rel=0.001
    )


@pytest.mark.parametrize(
    ("about", "values", "dropped"),
    [
        ("", ["x" * 201], []),
        ("", ["\ud800"], []),
        ("\ud800", ["x"], []),
        ("x" * 501, ["x"], []),
        ("", ["x"], [-1]),
        ("", ["x"], [1 << 60]),
        ("", ["x"], [1, 1]),
    ],
)
def test_a_worker_that_goes_past_its_own_bounds_is_not_believed(
    about: str, values: list[str], dropped: list[int]
) -> None:
    said = [["counter", "c", about, ["a"], []], [[values, 1, []]], *dropped]
    body = json_frame(FrameKind.METRICS, said)[8:]
    with pytest.raises((ValueError, TypeError)):
        decode_metrics(body)


class Where(Collector):
    """Notes on which threads it is asked."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def collect(self) -> Iterator[Family]:
        self.threads.append(threading.get_ident())
        yield Family("where", "", "gauge")


async def test_the_text_of_a_scrape_is_made_off_the_event_loop(tmp_path: Path) -> None:
    write_http_function(tmp_path, "def handler(context, event): pass")
    processor, where = Processor([load_function(tmp_path)], ""), Where()
    processor._metrics.registry.register(where)
    texts = await asyncio.gather(processor.metrics(), processor.metrics())
    assert all(b"# TYPE where gauge" in text for text in texts)
    assert threading.get_ident() not in where.threads[1:]  # the first is the registry's own, for its names


def test_texts_of_replicas_are_one(tmp_path: Path) -> None:
    texts = []
    for replica_name in ("a", "b"):
        metrics = MetricRegistry(replica_name)
        owner = (("replica", replica_name),)
        metrics.custom.add(
            owner, 0, CustomMetric("counter", "c", "x\n# HELP d", ("a",)), [CustomSample(("1\n# HELP c",), 1)]
        )
        metrics.custom.add(owner, 0, CustomMetric("gauge", f"of_{replica_name}"), [CustomSample((), 1)])
        texts.append(generate_latest(metrics.registry))
    both = merge_expositions([*texts, b"", texts[0][:-1].replace(b'"a"', b'"c"')]).decode()
    families = {family.name: family for family in text_string_to_metric_families(both)}
    assert both.count("\n# HELP ") + 1 == len(families)
    assert [it.labels["replica"] for it in families["c"].samples] == ["a", "b", "c"]
    assert {it.labels["a"] for it in families["c"].samples} == {"1\n# HELP c"}
    assert [it.labels["replica"] for it in families["headrace_build_info"].samples] == ["a", "b", "c"]
    assert {"of_a", "of_b"} <= families.keys()
    assert merge_expositions([]) == generate_latest(CollectorRegistry()) == b""


def test_what_the_history_says_of_many_partitions_is_bounded() -> None:
    history = History()
    history.note("assigned", ", ".join(f"topic-{number}/0" for number in range(10_000)))
    assert len(history.json()["events"][0][2]) < 1100


def test_a_handler_that_counts_too_much_ends_no_scrape(tmp_path: Path) -> None:
    handler = """
        def init_context(context):
            for metric in range(25):
                counter = context.metrics.counter(f"orders_{metric}", labels=["customer"])
                for number in range(1000):
                    counter.inc(customer=number)

        def handler(context, event):
            pass
    """
    write_http_function(tmp_path, handler)

    def shown(text: str, name: str) -> list[str]:
        return [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]

    with replica(tmp_path, log=tmp_path / "run.log") as running:
        running.wait_ready()
        name = "headrace_handler_samples_dropped_total{"
        wait_until(lambda: shown(running.get("/metrics")[1], name) == ["5000.0"], about=running)
        status, text = running.get("/metrics")
        assert (status, len(shown(text, "orders_"))) == (200, MAX_SERIES)
        assert running.get("/ready")[0] == 200
    told = (tmp_path / "run.log").read_text()
    assert told.count("the worker's metrics have 20000 series, as many as they may") == 1
