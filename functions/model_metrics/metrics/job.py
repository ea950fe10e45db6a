"""Bring all sums up to date: what a cron trigger does."""

from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from headrace.functions.model_metrics.metrics import work_queue
from headrace.functions.model_metrics.metrics.reading import read_judged, read_responses
from headrace.functions.model_metrics.metrics.summing import sum_up

_MOST_BUCKETS = 100  # at once: what is read of them is in this process's memory
_MOST_FEEDBACK = 10_000


def bring_up_to_date(spark: Any, engine: sa.Engine) -> int:
    """Sum up what has been touched by now; return of how many minutes. Two may do so at once.

    Raises SQLAlchemy's and Spark's errors; what was not summed waits for the next time.
    """
    while work_queue.touch_for_feedback(engine, _MOST_FEEDBACK):
        pass
    total, left = 0, work_queue.waiting(engine)
    while left > 0 and (buckets := work_queue.take(engine, _MOST_BUCKETS)):
        responses: pa.Table = read_responses(engine, buckets)
        work_queue.write(engine, buckets, sum_up(spark, responses, read_judged(engine, buckets)))
        total += len(buckets)
        left -= len(buckets)  # what is touched for ever is no reason to go on for ever
    return total
