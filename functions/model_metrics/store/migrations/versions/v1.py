"""Tables of version 1: responses, feedback, ignored messages, the queue of buckets, and sums."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "v1"
down_revision = None


def upgrade() -> None:
    """Create all tables in an empty database."""
    zoned = sa.DateTime(timezone=True)
    op.create_table(
        "responses",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("model_name", sa.Text, nullable=False),
        sa.Column("model_version", sa.Text),
        sa.Column("pipeline_name", sa.Text, nullable=False),
        sa.Column("inference_response_id", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("response_timestamp", zoned, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("payload_json", sa.JSON().with_variant(postgresql.JSONB(), "postgresql")),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("ingested_at", zoned, nullable=False),
        sa.PrimaryKeyConstraint("id", name="responses_pkey"),
        sa.UniqueConstraint("topic", "partition", "offset", "response_timestamp", name="responses_key"),
    )
    op.create_index(
        "responses_namespace_model_name_response_timestamp",
        "responses",
        ["namespace", "model_name", "response_timestamp"],
    )
    op.create_index("responses_request_id", "responses", ["request_id"])
    op.create_index("responses_inference_response_id", "responses", ["inference_response_id"])
    op.create_table(
        "feedback",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("model_name", sa.Text, nullable=False),
        sa.Column("pipeline_name", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("batch_index", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("label", sa.Text),
        sa.Column("number", sa.Double),
        sa.Column("feedback_timestamp", zoned, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("ingested_at", zoned, nullable=False),
        sa.Column("is_counted", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("id", name="feedback_pkey"),
        sa.UniqueConstraint("topic", "partition", "offset", "feedback_timestamp", name="feedback_key"),
    )
    op.create_index(
        "feedback_namespace_model_name_request_id", "feedback", ["namespace", "model_name", "request_id"]
    )
    op.create_index("feedback_is_counted", "feedback", ["is_counted"])
    op.create_table(
        "touched_buckets",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("model_name", sa.Text, nullable=False),
        sa.Column("bucket", zoned, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "model_name", "bucket", name="touched_buckets_pkey"),
    )
    op.create_table(
        "ignored_messages",
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("ingested_at", zoned, nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", "offset", "timestamp_ms", name="ignored_messages_pkey"),
    )
    key = ("namespace", "model_name", "model_version", "pipeline_name", "bucket")
    sums = {
        "response_counts": ((), (sa.Column("responses", sa.BigInteger, nullable=False),)),
        "confusion_counts": (
            ("actual", "predicted"),
            (sa.Column("predictions", sa.BigInteger, nullable=False),),
        ),
        "error_sums": (
            (),
            (
                sa.Column("predictions", sa.BigInteger, nullable=False),
                sa.Column("absolute", sa.Double, nullable=False),
                sa.Column("squared", sa.Double, nullable=False),
            ),
        ),
    }
    for table, (more, values) in sums.items():
        op.create_table(
            table,
            *(
                sa.Column(name, zoned if name == "bucket" else sa.Text, nullable=False)
                for name in (*key, *more)
            ),
            *values,
            sa.PrimaryKeyConstraint(*key, *more, name=f"{table}_pkey"),
        )


def downgrade() -> None:
    """Drop all tables."""
    sums = ("error_sums", "confusion_counts", "response_counts")
    for table in (*sums, "ignored_messages", "touched_buckets", "feedback", "responses"):
        op.drop_table(table)
