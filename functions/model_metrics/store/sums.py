"""Tables of sums: what there was of each model in each minute. Scores of any time are made of these."""

from typing import Any

import sqlalchemy as sa

from headrace.functions.database.types import Utc
from headrace.functions.model_metrics.store.tables import METADATA

SUMS_KEY = ("namespace", "model_name", "model_version", "pipeline_name", "bucket")
"""Of all three. A response that says no version has an empty one."""


def _sums_key() -> list[sa.Column[Any]]:
    return [sa.Column(name, Utc if name == "bucket" else sa.Text, primary_key=True) for name in SUMS_KEY]


COUNTS = sa.Table(
    "response_counts", METADATA, *_sums_key(), sa.Column("responses", sa.BigInteger, nullable=False)
)
"""How many responses."""

CONFUSION = sa.Table(
    "confusion_counts",
    METADATA,
    *_sums_key(),
    sa.Column("actual", sa.Text, primary_key=True),
    sa.Column("predicted", sa.Text, primary_key=True),
    sa.Column("predictions", sa.BigInteger, nullable=False),
)
"""How many predictions of one class had feedback of another, or of the same."""

ERRORS = sa.Table(
    "error_sums",
    METADATA,
    *_sums_key(),
    sa.Column("predictions", sa.BigInteger, nullable=False),
    sa.Column("absolute", sa.Double, nullable=False),
    sa.Column("squared", sa.Double, nullable=False),
)
"""Predicted less actual numbers."""
