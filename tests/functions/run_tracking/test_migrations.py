"""How databases come to have the tables of today."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

from headrace.functions.database.engine import open_engine
from headrace.functions.database.schema import NewerDatabaseError, migrate
from headrace.functions.run_tracking.store.tables import METADATA, MIGRATIONS, RUNS


def constraints(engine: sa.Engine) -> dict[str, tuple[object, ...]]:
    """Of each table, what compare_metadata doesn't look at. A database tells of tables in any order."""
    looks = sa.inspect(engine)
    names = sorted(name for name in looks.get_table_names() if name != "alembic_version")
    return {
        name: (
            looks.get_pk_constraint(name),
            sorted(looks.get_unique_constraints(name), key=repr),
            looks.get_columns(name),
        )
        for name in names
    }


def test_the_migrations_make_the_tables_of_today(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_keys_names_and_defaults_are_those_of_the_tables(engine: sa.Engine) -> None:
    migrated = constraints(engine)
    METADATA.drop_all(engine)
    METADATA.create_all(engine)
    created = constraints(engine)
    assert repr(migrated) == repr(created)
    assert len(created) == len(METADATA.tables)


def test_many_may_migrate_at_once(url: str) -> None:
    engines = [open_engine(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda engine: migrate(engine, MIGRATIONS), engines))
    with engines[0].connect() as connection:
        assert connection.execute(sa.select(RUNS)).all() == []
    for engine in engines:
        engine.dispose()


def test_a_database_of_a_later_version_is_left_alone(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'v99'"))
    with pytest.raises(NewerDatabaseError, match="is at version v99, this function knows v1: update it"):
        migrate(engine, MIGRATIONS)


def test_the_way_back_leaves_nothing(engine: sa.Engine) -> None:
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert sa.inspect(engine).get_table_names() == ["alembic_version"]
