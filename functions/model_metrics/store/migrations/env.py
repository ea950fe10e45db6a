"""Run by Alembic: migrate.py gives the connection, whose transaction it is."""

import logging

from alembic import context

from headrace.functions.model_metrics.store.tables import METADATA

logging.getLogger("alembic").setLevel(logging.WARNING)  # a worker's log is for what goes wrong
context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
