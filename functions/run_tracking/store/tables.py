"""Tables of run_tracking, as the migrations make them. JSON is text, which both databases keep exactly."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.schema import Utc, new_metadata

METADATA = new_metadata()
MIGRATIONS = "headrace.functions.run_tracking.store:migrations"
"""Folder of the migrations that make these tables."""


def _run() -> sa.Column[str]:
    return sa.Column("run_id", sa.Text, primary_key=True)


def _context() -> sa.Column[int]:
    # 32 bits without a sign don't fit into PostgreSQL's INTEGER.
    return sa.Column("context_id", sa.BigInteger, primary_key=True, autoincrement=False)


def _step() -> sa.Column[int]:
    return sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False)


RUNS = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("description", sa.Text),
    sa.Column("experiment_id", sa.Text),
    sa.Column("is_archived", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("is_active", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("created_at", Utc, nullable=False),
    sa.Column("client_started_at", Utc),
    sa.Column("finalized_at", Utc),
    sa.Column("duration_seconds", sa.Double),
    # For the list of runs, the newest first.
    sa.Index(None, "created_at"),
    # For an experiment's runs: how many they are, and which lose it when it is deleted.
    sa.Index(None, "experiment_id"),
)
"""Runs, a row each. `created_at` is the time of the first message.

The duration is by the client's clock where both ends have it.
"""

RUN_ATTRS = sa.Table("run_attrs", METADATA, _run(), sa.Column("attrs", sa.Text, nullable=False))
"""Hyperparameters of each run, as one JSON object."""

CONTEXTS = sa.Table("contexts", METADATA, _run(), _context(), sa.Column("context", sa.Text, nullable=False))
"""Contexts of metrics, as JSON; `context_id` is what `context_id()` computes."""

TRACES = sa.Table(
    "traces",
    METADATA,
    _run(),
    _context(),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("dtype", sa.Text, nullable=False),
    sa.Column("last", sa.Double),
    sa.Column("last_step", sa.BigInteger, nullable=False),
)
"""Summary of each sequence of steps: its highest step, and the value there. Log records have one, too."""

SEQUENCES = sa.Table(
    "sequences",
    METADATA,
    _run(),
    _context(),
    sa.Column("name", sa.Text, primary_key=True),
    _step(),
    sa.Column("value", sa.Double),
    sa.Column("epoch", sa.BigInteger),
    sa.Column("time", Utc, nullable=False),
    # On SQLite rows lie in the order of the key, without a second index for it.
    sqlite_with_rowid=False,
)
"""Steps of metrics. NULL is NaN, which SQLite doesn't have.

`time` is the client's, or else the frontier's.
"""

CUSTOM_OBJECTS = sa.Table(
    "custom_objects",
    METADATA,
    _run(),
    _context(),
    sa.Column("name", sa.Text, primary_key=True),
    _step(),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger),
    sa.Column("time", Utc, nullable=False),
)
"""Steps of images, texts and the like. `value` is JSON, which names a blob where there is one."""

TERMINAL_LINES = sa.Table(
    "terminal_lines", METADATA, _run(), _step(), sa.Column("line", sa.Text, nullable=False)
)

LOG_RECORDS = sa.Table("log_records", METADATA, _run(), _step(), sa.Column("record", sa.Text, nullable=False))
"""Log records, as JSON with message, log_level, timestamp, args and logger_info."""

STEPLESS = sa.Table(
    "stepless",
    METADATA,
    _run(),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("step", sa.BigInteger, nullable=False),
)
"""Steps given to messages that came without one, the same each time. `source` identifies the message."""

EXPERIMENTS = sa.Table(
    "experiments",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)
"""Experiments. `id` is a hash of the name, so that workers can write it without reading first."""

TAGS = sa.Table(
    "tags",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)

# The key begins with the run; the index finds a tag's runs.
RUN_TAGS = sa.Table(
    "run_tags", METADATA, _run(), sa.Column("tag_id", sa.Text, primary_key=True), sa.Index(None, "tag_id")
)

BLOBS = sa.Table(
    "blobs",
    METADATA,
    _run(),
    sa.Column("artifact_path", sa.Text, primary_key=True),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("blob_key", sa.Text, nullable=False),
)
"""Artifacts: an item has said that their bytes are in the blob store."""

TOMBSTONES = sa.Table("tombstones", METADATA, _run(), sa.Column("deleted_at", Utc, nullable=False))
"""Deleted runs, whose later messages have no effect."""

# There are no foreign keys, so nothing cascades: rows of a table that is missing here would stay.
RUN_TABLES: tuple[sa.Table, ...] = (
    RUN_ATTRS,
    CONTEXTS,
    TRACES,
    SEQUENCES,
    CUSTOM_OBJECTS,
    TERMINAL_LINES,
    LOG_RECORDS,
    STEPLESS,
    RUN_TAGS,
    BLOBS,
)
"""Tables whose rows are deleted with their run."""


def context_id(context: Mapping[str, Any] | None) -> int:
    """Return a context's id as Matyan's client computes it: 0, or 32 bits of a sha256 of its JSON."""
    if not context:
        return 0
    # Byte for byte as the client writes it: with one more space the id would be another.
    canonical = json.dumps(context, sort_keys=True, separators=(",", ":"))
    return int(hashlib.sha256(canonical.encode()).hexdigest()[:8], 16)


def id_of_name(name: str) -> str:
    """Return the id of an experiment or a tag, a hash of its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]
