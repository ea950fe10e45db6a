"""Tables of version 1: runs and all that belongs to them, experiments, tags, artifacts, deleted runs."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v1"
down_revision = None


def upgrade() -> None:
    """Create all tables in an empty database."""
    _runs()
    _steps()
    _logs()
    _names()
    _create("blobs", ("run_id", "artifact_path"), _text("content_type"), _text("blob_key"))
    _create("tombstones", ("run_id",), sa.Column("deleted_at", _zoned(), nullable=False))


def _runs() -> None:
    _create(
        "runs",
        ("id",),
        *(sa.Column(name, sa.Text) for name in ("name", "description", "experiment_id")),
        sa.Column("is_archived", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("is_active", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("created_at", _zoned(), nullable=False),
        sa.Column("client_started_at", _zoned()),
        sa.Column("finalized_at", _zoned()),
        sa.Column("duration_seconds", sa.Double),
    )
    op.create_index("runs_created_at", "runs", ["created_at"])
    op.create_index("runs_experiment_id", "runs", ["experiment_id"])
    _create("run_attrs", ("run_id",), _text("attrs"))


def _steps() -> None:
    _create("contexts", ("run_id", "context_id"), _text("context"))
    last = sa.Column("last", sa.Double), _number("last_step")
    _create("traces", ("run_id", "context_id", "name"), _text("dtype"), *last)
    key = ("run_id", "context_id", "name", "step")
    _create("sequences", key, sa.Column("value", sa.Double), *_when(), sqlite_with_rowid=False)
    _create("custom_objects", key, _text("value"), *_when())


def _logs() -> None:
    _create("terminal_lines", ("run_id", "step"), _text("line"))
    _create("log_records", ("run_id", "step"), _text("record"))
    _create("stepless", ("run_id", "source"), _number("step"))


def _names() -> None:
    for table in ("experiments", "tags"):
        _create(table, ("id",), _text("name"), sa.UniqueConstraint("name", name=f"{table}_key"))
    _create("run_tags", ("run_id", "tag_id"))
    op.create_index("run_tags_tag_id", "run_tags", ["tag_id"])


def _create(table: str, key: tuple[str, ...], *more: Any, **options: Any) -> None:
    columns = [_number(name) if name in {"step", "context_id"} else _text(name) for name in key]
    op.create_table(table, *columns, *more, sa.PrimaryKeyConstraint(*key, name=f"{table}_pkey"), **options)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, autoincrement=False)


def _when() -> tuple[sa.Column[Any], ...]:
    return sa.Column("epoch", sa.BigInteger), sa.Column("time", _zoned(), nullable=False)


def _zoned() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def downgrade() -> None:
    """Drop all tables."""
    for table in ("tombstones", "blobs", "run_tags", "tags", "experiments", "stepless", "log_records"):
        op.drop_table(table)
    for table in ("terminal_lines", "custom_objects", "sequences", "traces", "contexts", "run_attrs", "runs"):
        op.drop_table(table)
