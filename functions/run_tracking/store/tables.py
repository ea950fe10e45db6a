"""What is stored, as it is now. migrations/ makes it so. JSON is text: both keep all that it may hold."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from headrace.functions.database.schema import Utc, new_metadata

METADATA = new_metadata()


MIGRATIONS = "headrace.functions.run_tracking.store:migrations"


"""By which databases come to have them."""


def _run() -> sa.Column[str]:
    return sa.Column("run_id", sa.Text, primary_key=True)


def _context() -> sa.Column[int]:
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
    sa.Index(None, "created_at"),
    sa.Index(None, "experiment_id"),
)


"""`created_at` is the first message's time; the duration is by the client's clock where both ends have it."""


RUN_ATTRS = sa.Table("run_attrs", METADATA, _run(), sa.Column("attrs", sa.Text, nullable=False))


"""All hyperparameters of a run, one JSON object."""


CONTEXTS = sa.Table("contexts", METADATA, _run(), _context(), sa.Column("context", sa.Text, nullable=False))


"""JSON. `context_id` is 0 for none, else the first 32 bits of the sha256 of its canonical form."""


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


"""One for each sequence of steps: its highest step, and what is there. Log records have one, too."""


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
    sqlite_with_rowid=False,
)


"""The steps of metrics. NULL is a value that is no number: SQLite has no NaN. `time` is the client's, or else
the frontier's."""


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


"""The steps of images, texts and the like; `value` is JSON, and names a blob where there is one."""


TERMINAL_LINES = sa.Table(
    "terminal_lines", METADATA, _run(), _step(), sa.Column("line", sa.Text, nullable=False)
)


LOG_RECORDS = sa.Table("log_records", METADATA, _run(), _step(), sa.Column("record", sa.Text, nullable=False))


"""`record` is JSON with message, log_level, timestamp, args and logger_info."""


STEPLESS = sa.Table(
    "stepless",
    METADATA,
    _run(),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("step", sa.BigInteger, nullable=False),
)


"""Which step a message has got that came without one: the same each time. `source` is the message."""


EXPERIMENTS = sa.Table(
    "experiments",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)


"""`id` is made of the name, so that whoever writes it first needs no answer."""


TAGS = sa.Table(
    "tags",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)


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


"""Artifacts of which a client has said that their bytes are in the store."""


TOMBSTONES = sa.Table("tombstones", METADATA, _run(), sa.Column("deleted_at", Utc, nullable=False))


"""Runs that are deleted: what comes later of one has no effect."""


OF_RUNS: tuple[sa.Table, ...] = (
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


"""All that goes with its run."""


def context_id(context: Mapping[str, Any] | None) -> int:
    """As Matyan's clients compute it."""
    if not context:
        return 0
    canonical = json.dumps(context, sort_keys=True, separators=(",", ":"))
    return int(hashlib.sha256(canonical.encode()).hexdigest()[:8], 16)


def id_of_name(name: str) -> str:
    """Of an experiment, or of a tag."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]
