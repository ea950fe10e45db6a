"""What the sums say to a question. JSON as dicts and lists; times as ISO 8601 in UTC."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import for_reading
from headrace.functions.model_metrics.metrics.scores import classification, regression
from headrace.functions.model_metrics.store.sums import CONFUSION, COUNTS, ERRORS
from headrace.functions.model_metrics.store.tables import IGNORED
from headrace.functions.model_metrics.web.questions import NAMES, Question


class Answers:
    """Reads one database. Blocks."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = for_reading(engine)

    def models(self) -> list[dict[str, Any]]:
        """All that have ever answered, with what they answered last."""
        columns = [COUNTS.c[name] for name in NAMES.values()]
        last, total = sa.func.max(COUNTS.c.bucket), sa.func.sum(COUNTS.c.responses)
        query = sa.select(
            *columns, total.label("responses"), sa.type_coerce(last, COUNTS.c.bucket.type).label("last")
        )
        return [
            {
                **{spelled: row[name] for spelled, name in NAMES.items()},
                "responses": int(row["responses"]),
                "lastMinute": _written(row["last"]),
            }
            for row in self._rows(query.group_by(*columns).order_by(*columns))
        ]

    def ignored(self) -> dict[str, int]:
        """Messages without a row, by reason."""
        query = sa.select(IGNORED.c.reason, sa.func.count().label("messages")).group_by(IGNORED.c.reason)
        return {row["reason"]: row["messages"] for row in self._rows(query)}

    def responses(self, question: Question) -> list[dict[str, Any]]:
        """How many, in each part of the time."""
        found: Counter[datetime] = Counter()
        for row in self._sums(COUNTS, question):
            found[question.part_of(row["bucket"])] += row["responses"]
        return [{"startTime": _written(part), "responses": found[part]} for part in question.parts]

    def classification(self, question: Question) -> dict[str, Any]:
        """Of the whole time, and of each part; `confusion` has lists of actual, predicted, predictions."""
        by_part: dict[datetime, Counter[tuple[str, str]]] = defaultdict(Counter)
        for row in self._sums(CONFUSION, question):
            pair = row["actual"], row["predicted"]
            by_part[question.part_of(row["bucket"])][pair] += row["predictions"]
        whole: Counter[tuple[str, str]] = sum(by_part.values(), Counter())
        return {
            **asdict(classification(whole)),
            "confusion": [[*pair, count] for pair, count in sorted(whole.items())],
            "parts": [_part(part, classification(by_part[part])) for part in question.parts],
        }

    def regression(self, question: Question) -> dict[str, Any]:
        """Of the whole time, and of each part."""
        by_part: dict[datetime, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        whole: list[float] = [0, 0.0, 0.0]
        for row in self._sums(ERRORS, question):
            for sums in (whole, by_part[question.part_of(row["bucket"])]):
                for place, name in enumerate(("predictions", "absolute", "squared")):
                    sums[place] += row[name]
        return {
            **asdict(_regression(whole)),
            "parts": [_part(part, _regression(by_part[part])) for part in question.parts],
        }

    def _sums(self, table: sa.Table, question: Question) -> Iterator[sa.RowMapping]:
        is_in = (table.c.bucket >= question.start) & (table.c.bucket < question.end)
        query = sa.select(table).where(is_in)
        for name, value in question.of.items():
            query = query.where(table.c[name] == value)
        return self._rows(query)

    def _rows(self, query: Any) -> Iterator[sa.RowMapping]:
        with self._engine.connect() as connection:
            yield from connection.execute(query).mappings()


def _regression(sums: Sequence[float]) -> Any:
    return regression(int(sums[0]), sums[1], sums[2])


def _part(start: datetime, scores: Any) -> dict[str, Any]:
    return {"startTime": _written(start), **asdict(scores)}


def _written(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
