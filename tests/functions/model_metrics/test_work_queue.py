"""Minutes that are touched get summed, none is forgotten and none is summed from what was there before."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from inference_responses import as_json
from model_metrics_rows import RESPONSE, TRUTH

from headrace.functions.model_metrics.messages.feedback import Kind
from headrace.functions.model_metrics.metrics import work_queue
from headrace.functions.model_metrics.metrics.reading import read_judged, read_responses
from headrace.functions.model_metrics.store.tables import CONFUSION, COUNTS, ERRORS
from headrace.functions.model_metrics.store.writer import Rows, Writer

MINUTE = datetime(2026, 5, 17, 12, 30, tzinfo=UTC)
KEY = {"namespace": "ns1", "model_name": "iris", "model_version": "1", "pipeline_name": "iris-pipeline"}
SECONDS = int(MINUTE.timestamp())


def sums(count: int, bucket: datetime = MINUTE, **more: str) -> work_queue.Sums:
    return {COUNTS: [{**KEY, **more, "bucket": bucket, "responses": count}], CONFUSION: [], ERRORS: []}


def counts(engine: sa.Engine) -> Sequence[int]:
    with engine.connect() as connection:
        return connection.execute(sa.select(COUNTS.c.responses).order_by(COUNTS.c.bucket)).scalars().all()


def test_new_sums_replace_old_ones_and_the_minute_is_done(engine: sa.Engine) -> None:
    writer = Writer(engine)
    for count in (1, 2):
        writer.write(Rows([replace(RESPONSE, offset=count)]))
        (bucket,) = work_queue.next_buckets(engine, 10)
        assert (bucket.start, bucket.changes) == (MINUTE, 1)
        work_queue.replace_sums(engine, [bucket], sums(count))
        assert counts(engine) == [count]
        assert work_queue.next_buckets(engine, 10) == []


def test_a_minute_that_is_touched_meanwhile_stays(engine: sa.Engine) -> None:
    writer = Writer(engine)
    writer.write(Rows([RESPONSE]))
    (early,) = work_queue.next_buckets(engine, 10)
    writer.write(Rows([replace(RESPONSE, offset=1)]))
    work_queue.replace_sums(engine, [early], sums(1))
    assert counts(engine) == []
    (late,) = work_queue.next_buckets(engine, 10)
    work_queue.replace_sums(engine, [late], sums(2))
    assert counts(engine) == [2]


def test_what_another_one_has_summed_is_left(engine: sa.Engine) -> None:
    Writer(engine).write(Rows([RESPONSE]))
    (bucket,) = work_queue.next_buckets(engine, 10)
    work_queue.replace_sums(engine, [bucket], sums(2))
    work_queue.replace_sums(engine, [bucket], sums(1))
    assert counts(engine) == [2]


def test_the_sums_of_other_minutes_and_models_stay(engine: sa.Engine) -> None:
    later = replace(RESPONSE, offset=1, response_timestamp=RESPONSE.response_timestamp + timedelta(minutes=1))
    other = replace(RESPONSE, offset=2, model_name="other")
    Writer(engine).write(Rows([RESPONSE, later, other]))
    taken = work_queue.next_buckets(engine, 10)
    assert len(taken) == work_queue.count_waiting(engine) == 3
    for bucket in taken:
        work_queue.replace_sums(engine, [bucket], sums(7, bucket.start, model_name=bucket.model_name))
    assert counts(engine) == [7, 7, 7]


def judged(engine: sa.Engine) -> list[dict[str, Any]]:
    keys = ("kind", "actual", "predicted", "error")
    rows = read_judged(engine, work_queue.next_buckets(engine, 10)).to_pylist()
    return [{key: row[key] for key in keys if row[key] is not None} for row in rows]


def test_responses_are_read_with_their_minute_and_version(engine: sa.Engine) -> None:
    Writer(engine).write(Rows([RESPONSE, replace(RESPONSE, offset=1, model_version=None)]))
    rows = read_responses(engine, work_queue.next_buckets(engine, 10)).to_pylist()
    row = {**KEY, "bucket": SECONDS}
    assert sorted(rows, key=str) == sorted([row, {**row, "model_version": ""}], key=str)


def test_the_last_feedback_of_a_kind_counts(engine: sa.Engine) -> None:
    """The response rates class 1 highest, and is one number for nobody."""
    later = replace(
        TRUTH, offset=8, label="1", feedback_timestamp=TRUTH.feedback_timestamp + timedelta(hours=1)
    )
    number = replace(TRUTH, offset=9, kind=Kind.REGRESSION, label=None, number=0.5)
    Writer(engine).write(Rows([RESPONSE], [TRUTH, later, number]))
    assert judged(engine) == [{"kind": "classification", "actual": "1", "predicted": "1"}]


def test_each_request_of_a_batch_has_its_own_feedback(engine: sa.Engine) -> None:
    outputs = [{"name": "o", "datatype": "FP64", "shape": [2], "data": [1.5, 2.0]}]
    response = replace(RESPONSE, payload_json=as_json(outputs=outputs).decode())
    numbers = [
        replace(TRUTH, offset=8 + n, kind=Kind.REGRESSION, label=None, number=1.0, batch_index=n)
        for n in range(3)  # the response has no third
    ]
    Writer(engine).write(Rows([response], numbers))
    assert judged(engine) == [{"kind": "regression", "error": 0.5}, {"kind": "regression", "error": 1.0}]


def test_feedback_finds_its_response_by_request_id_or_by_key(engine: sa.Engine) -> None:
    composite = replace(RESPONSE, inference_response_id="0.p.abc", request_id="abc")
    foreign = replace(RESPONSE, offset=1, request_id="else")
    another = replace(RESPONSE, offset=2, pipeline_name="another")
    twin = replace(RESPONSE, offset=3)
    Writer(engine).write(Rows([composite, foreign, another, twin], [TRUTH]))
    assert len(judged(engine)) == 2


def test_feedback_touches_the_minute_of_its_response_whichever_comes_first(engine: sa.Engine) -> None:
    writer = Writer(engine)
    writer.write(Rows(feedback=[TRUTH]))
    assert work_queue.touch_for_feedback(engine, 10) == 0
    writer.write(Rows([RESPONSE]))
    work_queue.replace_sums(engine, work_queue.next_buckets(engine, 10), sums(1))
    assert work_queue.touch_for_feedback(engine, 10) == 1
    assert [bucket.start for bucket in work_queue.next_buckets(engine, 10)] == [MINUTE]
    assert work_queue.touch_for_feedback(engine, 10) == 0
