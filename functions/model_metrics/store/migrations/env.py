"""Alembic's environment: uses the connection, and so the transaction, of database/schema.py."""

from alembic import context

from headrace.functions.model_metrics.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
