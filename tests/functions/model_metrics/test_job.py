"""Sums by Spark: as plain Python counts them, whatever comes in which order."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from inference_responses import as_json
from model_metrics_rows import RESPONSE, TRUTH
from pyspark.sql import SparkSession

from headrace.functions.model_metrics.messages.feedback import FeedbackRow, Kind
from headrace.functions.model_metrics.messages.responses import ResponseRow
from headrace.functions.model_metrics.metrics.job import bring_up_to_date
from headrace.functions.model_metrics.store.tables import CONFUSION, COUNTS, ERRORS
from headrace.functions.model_metrics.store.writer import Rows, Writer

NUMBERS = "regressor"


def response(number: int) -> ResponseRow:
    """Every other one of a classifier: it says class number % 3. The others say number / 4."""
    is_number = number % 2
    data = [number / 4] if is_number else [1.0 if place == number % 3 else 0.5 for place in range(3)]
    return replace(
        RESPONSE,
        model_name=NUMBERS if is_number else "iris",
        model_version=None if number % 5 == 0 else str(number % 2),
        inference_response_id=str(number),
        offset=number,
        response_timestamp=RESPONSE.response_timestamp + timedelta(seconds=7 * number),
        payload_json=as_json(data).decode(),
    )


def feedback(number: int) -> FeedbackRow:
    """The truth is class number % 2, or number / 4 + 1."""
    is_number = number % 2
    return replace(
        TRUTH,
        model_name=NUMBERS if is_number else "iris",
        request_id=str(number),
        offset=number,
        kind=Kind.REGRESSION if is_number else Kind.CLASSIFICATION,
        label=None if is_number else str(number % 4 // 2),
        number=number / 4 + 1 if is_number else None,
    )


def total(engine: sa.Engine, table: sa.Table, *columns: str) -> Counter[Any]:
    """The table's first number by these columns."""
    value = next(column for column in table.c if not column.primary_key)
    with engine.connect() as connection:
        rows = connection.execute(sa.select(value, *(table.c[name] for name in columns)))
        found: Counter[Any] = Counter()
        for count, *key in rows:
            found[tuple(key)] += count
    return found


@pytest.mark.full_but("postgresql")
def test_sums_are_those_of_plain_python_whatever_comes_when(session: SparkSession, engine: sa.Engine) -> None:
    chance, writer = random.Random(7), Writer(engine)
    responses, truths = [response(n) for n in range(200)], [feedback(n) for n in range(0, 200, 2)]
    truths += [feedback(n) for n in range(1, 150, 2)]
    rows: list[ResponseRow | FeedbackRow] = [*responses, *truths]
    chance.shuffle(rows)
    for start in range(0, len(rows), 60):
        part = rows[start : start + 80]  # some come twice
        writer.write(
            Rows(
                [row for row in part if isinstance(row, ResponseRow)],
                [row for row in part if isinstance(row, FeedbackRow)],
            )
        )
        assert bring_up_to_date(session, engine) > 0
    assert bring_up_to_date(session, engine) == 0

    versions = Counter((row.model_name, row.model_version or "") for row in responses)
    assert total(engine, COUNTS, "model_name", "model_version") == versions
    confusion = Counter((str(n % 4 // 2), str(n % 3)) for n in range(0, 200, 2))
    assert total(engine, CONFUSION, "actual", "predicted") == confusion
    assert total(engine, ERRORS, "model_name") == {(NUMBERS,): 75}
    with engine.connect() as connection:
        sums = connection.execute(
            sa.select(sa.func.sum(ERRORS.c.absolute), sa.func.sum(ERRORS.c.squared))
        ).one()
    assert tuple(sums) == (75.0, 75.0)
