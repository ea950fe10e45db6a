"""What tables are made of."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

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
