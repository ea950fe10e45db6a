"""Answers of the API, read from the sums: JSON as dicts and lists, times as ISO 8601 in UTC."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import bounded_read
from headrace.functions.model_metrics.metrics.scores import classification, regression
from headrace.functions.model_metrics.store.tables import CONFUSION, COUNTS, ERRORS, IGNORED
from headrace.functions.model_metrics.web.query import NAMES, MetricsQuery, QueryError

_MOST_MODELS = 10_000
_MOST_CLASSES = 1_000  # in one response; a model with more doesn't answer with classes
_MOST_SUMS = 100_000
_NONE = (0, 0.0, 0.0)


class MetricsReader:
    """Reads the metrics of one database. Blocks; raises SQLAlchemy's errors, TooLongError and QueryError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def models(self) -> list[dict[str, Any]]:
        """Return the models with responses, how many, and the last minute with one; sorted by name."""
        columns = [COUNTS.c[name] for name in NAMES.values()]
        last, total = sa.func.max(COUNTS.c.bucket), sa.func.sum(COUNTS.c.responses)
        query = sa.select(
            *columns, total.label("responses"), sa.type_coerce(last, COUNTS.c.bucket.type).label("last")
        )
        return [
            {
                **{spelled: row[name] for spelled, name in NAMES.items()},
                # PostgreSQL's sum of BIGINT is NUMERIC: it comes as a Decimal, which JSON doesn't take.
                "responses": int(row["responses"]),
                "lastMinute": _written(row["last"]),
            }
            for row in self._rows(query.group_by(*columns).order_by(*columns).limit(_MOST_MODELS))
        ]

    def ignored(self) -> dict[str, int]:
        """Return the number of messages without a row, by reason."""
        query = sa.select(IGNORED.c.reason, sa.func.count().label("messages")).group_by(IGNORED.c.reason)
        return {row["reason"]: row["messages"] for row in self._rows(query)}

    def responses(self, question: MetricsQuery) -> list[dict[str, Any]]:
        """Return the number of responses in each part of the queried time."""
        found = {row["part"]: int(row["responses"]) for row in self._sums(COUNTS, question, ("responses",))}
        return [
            {"startTime": _written(part), "responses": found.get(place, 0)}
            for place, part in enumerate(question.parts)
        ]

    def classification(self, question: MetricsQuery) -> dict[str, Any]:
        """Return the scores for the whole time and each part, and the confusion matrix.

        `confusion` is a list of [actual, predicted, predictions].
        """
        by_part: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
        classes: set[str] = set()
        for row in self._sums(CONFUSION, question, ("predictions",), ("actual", "predicted")):
            pair = row["actual"], row["predicted"]
            classes.update(pair)
            # Every class has scores in each of up to 100 parts, and a row and a column in the matrix.
            if len(classes) > _MOST_CLASSES:
                raise QueryError(
                    f"there are more than {_MOST_CLASSES} classes in that time: ask for less of it, or of one"
                    " model or version"
                )
            by_part[row["part"]][pair] += int(row["predictions"])
        whole: Counter[tuple[str, str]] = sum(by_part.values(), Counter())
        return {
            **asdict(classification(whole)),
            "confusion": [[*pair, count] for pair, count in sorted(whole.items())],
            "parts": [
                _part(part, classification(by_part[place])) for place, part in enumerate(question.parts)
            ],
        }

    def regression(self, question: MetricsQuery) -> dict[str, Any]:
        """Return the errors for the whole time and for each part."""
        names = ("predictions", "absolute", "squared")
        by_part = {row["part"]: [row[name] for name in names] for row in self._sums(ERRORS, question, names)}
        # Without any part zip yields nothing at all.
        whole = [sum(sums) for sums in zip(*by_part.values(), strict=True)] or _NONE
        return {
            **asdict(_regression(whole)),
            "parts": [
                _part(part, _regression(by_part.get(place, _NONE)))
                for place, part in enumerate(question.parts)
            ],
        }

    def _sums(
        self, table: sa.Table, question: MetricsQuery, sums: Sequence[str], key: Sequence[str] = ()
    ) -> Sequence[sa.RowMapping]:
        """Return sums grouped by part and `key`. The database adds them up: a query may span years."""
        is_in = (table.c.bucket >= question.start) & (table.c.bucket < question.end)
        # PostgreSQL's epoch is NUMERIC: divided, it would give numbers of parts with a fraction.
        since = sa.cast(sa.extract("epoch", table.c.bucket), sa.BigInteger) - int(question.start.timestamp())
        by = [
            # Integer division numbers the parts from 0.
            (since // int(question.interval.total_seconds())).label("part"),
            *(table.c[name] for name in key),
        ]
        query = sa.select(*by, *(sa.func.sum(table.c[name]).label(name) for name in sums)).where(is_in)
        for name, value in question.filters.items():
            query = query.where(table.c[name] == value)
        # One more than allowed shows that there are too many, without counting them all.
        rows = self._rows(query.group_by(*by).limit(_MOST_SUMS + 1))
        if len(rows) > _MOST_SUMS:
            raise QueryError(f"that is more than {_MOST_SUMS} sums: ask for less time, or one model")
        return rows

    def _rows(self, query: Any) -> Sequence[sa.RowMapping]:
        with bounded_read(self._engine) as transaction:
            return transaction.rows(query)


def _regression(sums: Sequence[float]) -> Any:
    return regression(int(sums[0]), sums[1], sums[2])


def _part(start: datetime, scores: Any) -> dict[str, Any]:
    return {"startTime": _written(start), **asdict(scores)}


def _written(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
