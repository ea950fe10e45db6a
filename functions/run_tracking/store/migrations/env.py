"""Run by Alembic: migrate.py gives the connection, whose transaction it is."""

from alembic import context

from headrace.functions.run_tracking.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
