"""Naming and column types of tables, and the migrations that bring a database up to date."""

import logging
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

_NAMES = {
    "pk": "%(table_name)s_pkey",
    "uq": "%(table_name)s_key",
    "ix": "%(table_name)s_%(column_0_N_name)s",
}


if TYPE_CHECKING:
    from alembic.script import ScriptDirectory


def new_metadata() -> sa.MetaData:
    """Return metadata that names constraints and indexes as PostgreSQL would, on SQLite too."""
    return sa.MetaData(naming_convention=_NAMES)


class Utc(sa.TypeDecorator[datetime]):
    """Column type of an aware datetime in UTC, also on SQLite, which stores no zones."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Convert a value to UTC before it is stored: SQLite compares times as the text that it was given."""
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Return a stored time with its zone, which SQLite leaves out."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class NewerDatabaseError(Exception):
    """The database was made by a later version of this function. The message is one line."""


def migrate(engine: sa.Engine, steps: str) -> None:
    """Apply all migrations that are missing, in one transaction.

    `steps` is the folder of the migrations, `package:folder`. Of several callers one migrates; the others
    wait and find it done. Raises NewerDatabaseError, and SQLAlchemy's errors.
    """
    logging.getLogger("alembic").setLevel(logging.WARNING)  # before the import, which logs plugins
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", steps)
    config.set_main_option("path_separator", "os")
    # All workers of all replicas start at once. The lock is named after the migrations, so functions that
    # share a database don't wait for each other.
    with engine.begin() as connection:  # on SQLite this takes the write lock
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(zlib.crc32(steps.encode()))))
        # Under the lock: only now the version is one that nobody is changing.
        _check(connection, ScriptDirectory.from_config(config))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _check(connection: sa.Connection, steps: "ScriptDirectory") -> None:
    """Raise NewerDatabaseError where the database has a version that isn't among `steps`."""
    from alembic.runtime.migration import MigrationContext

    known = {step.revision for step in steps.walk_revisions()}
    if unknown := set(MigrationContext.configure(connection).get_current_heads()) - known:
        raise NewerDatabaseError(
            f"the database is at version {', '.join(unknown)}, this function knows {max(known)}: update it"
        )
