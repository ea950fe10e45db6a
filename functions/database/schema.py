"""What tables are made of."""

import logging
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory


_NAMES = {
    "pk": "%(table_name)s_pkey",
    "uq": "%(table_name)s_key",
    "ix": "%(table_name)s_%(column_0_N_name)s",
}


def new_metadata() -> sa.MetaData:
    """Constraints and indexes get the names that PostgreSQL would give them, on SQLite too."""
    return sa.MetaData(naming_convention=_NAMES)


class Utc(sa.TypeDecorator[datetime]):
    """An aware datetime in UTC, on databases that know no zones too."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """SQLite keeps what it is given: always UTC, so that times compare."""
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """SQLite gives times without a zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class NewerDatabaseError(Exception):
    """It was made by a later version of this function, in one line."""


def migrate(engine: sa.Engine, steps: str) -> None:
    """All steps that are missing, in one transaction. Whoever comes meanwhile waits, and finds them done.

    `steps` is where they are, `package:folder`. Raises NewerDatabaseError, and SQLAlchemy's errors.
    """
    logging.getLogger("alembic").setLevel(logging.WARNING)  # first: it tells of its plugins as it is imported
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", steps)
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:  # SQLite's has the lock already
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(zlib.crc32(steps.encode()))))
        _check(connection, ScriptDirectory.from_config(config))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _check(connection: sa.Connection, steps: "ScriptDirectory") -> None:
    from alembic.runtime.migration import MigrationContext

    known = {step.revision for step in steps.walk_revisions()}
    if unknown := set(MigrationContext.configure(connection).get_current_heads()) - known:
        raise NewerDatabaseError(
            f"the database is at version {', '.join(unknown)}, this function knows {max(known)}: update it"
        )
