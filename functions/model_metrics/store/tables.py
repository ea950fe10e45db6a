"""Tables of model_metrics, as the migrations make them."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from headrace.functions.database.schema import Utc, new_metadata

METADATA = new_metadata()
MIGRATIONS = "headrace.functions.model_metrics.store:migrations"
"""Folder of the migrations that make these tables."""

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite autoincrements INTEGER keys only

RESPONSES = sa.Table(
    "responses",
    METADATA,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("model_name", sa.Text, nullable=False),
    sa.Column("model_version", sa.Text),
    sa.Column("pipeline_name", sa.Text, nullable=False),
    sa.Column("inference_response_id", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text),
    sa.Column("response_timestamp", Utc, nullable=False),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("payload_json", sa.JSON().with_variant(postgresql.JSONB(), "postgresql")),
    sa.Column("topic", sa.Text, nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False),
    sa.Column("ingested_at", Utc, nullable=False),
    # A redelivered record adds no row; records of a topic that was made anew differ in time.
    sa.UniqueConstraint("topic", "partition", "offset", "response_timestamp"),
    # For the sums of a minute; the other two are for feedback, which is matched by id or by key.
    sa.Index(None, "namespace", "model_name", "response_timestamp"),
    sa.Index(None, "request_id"),
    sa.Index(None, "inference_response_id"),
)
"""Responses, a row each, named as responses.ResponseRow."""

FEEDBACK = sa.Table(
    "feedback",
    METADATA,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("model_name", sa.Text, nullable=False),
    sa.Column("pipeline_name", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("batch_index", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("label", sa.Text),
    sa.Column("number", sa.Double),
    sa.Column("feedback_timestamp", Utc, nullable=False),
    sa.Column("topic", sa.Text, nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False),
    sa.Column("ingested_at", Utc, nullable=False),
    sa.Column("is_counted", sa.Boolean, nullable=False, server_default=sa.false()),
    # As for responses. Later feedback on the same prediction is a row of its own, and the one that is read.
    sa.UniqueConstraint("topic", "partition", "offset", "feedback_timestamp"),
    sa.Index(None, "namespace", "model_name", "request_id"),
    # Each firing of the cron trigger looks for the rows that aren't counted yet.
    sa.Index(None, "is_counted"),
)
"""Feedback, a row each, named as feedback.FeedbackRow.

`is_counted` is true once the bucket of its response was queued for it.
"""

TOUCHED = sa.Table(
    "touched_buckets",
    METADATA,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("model_name", sa.Text, primary_key=True),
    sa.Column("bucket", Utc, primary_key=True),
    sa.Column("changes", sa.BigInteger, nullable=False),
)
"""Queue of the minutes whose sums are older than their responses.

Written in one transaction with the responses, so that no minute is forgotten. `changes` counts up: whoever
has summed a bucket removes it only if the counter is still the one that it has read.
"""

IGNORED = sa.Table(
    "ignored_messages",
    METADATA,
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("timestamp_ms", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("ingested_at", Utc, nullable=False),
)
"""Messages without a row, and why. A table, no counter, so that a redelivered message counts once.

`timestamp_ms` is the message's, -1 where it has none.
"""

SUMS_KEY = ("namespace", "model_name", "model_version", "pipeline_name", "bucket")
"""Key columns of the three tables of sums. A response without a version has an empty one."""


def _sums_key() -> list[sa.Column[Any]]:
    return [sa.Column(name, Utc if name == "bucket" else sa.Text, primary_key=True) for name in SUMS_KEY]


COUNTS = sa.Table(
    "response_counts", METADATA, *_sums_key(), sa.Column("responses", sa.BigInteger, nullable=False)
)
"""Number of responses for each minute."""

CONFUSION = sa.Table(
    "confusion_counts",
    METADATA,
    *_sums_key(),
    sa.Column("actual", sa.Text, primary_key=True),
    sa.Column("predicted", sa.Text, primary_key=True),
    sa.Column("predictions", sa.BigInteger, nullable=False),
)
"""Confusion matrix for each minute: predictions of each class by the class that feedback named."""

ERRORS = sa.Table(
    "error_sums",
    METADATA,
    *_sums_key(),
    sa.Column("predictions", sa.BigInteger, nullable=False),
    sa.Column("absolute", sa.Double, nullable=False),
    sa.Column("squared", sa.Double, nullable=False),
)
"""Sums of errors (predicted less actual numbers) for each minute: absolute and squared."""
