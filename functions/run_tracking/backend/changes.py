"""Edits of runs, experiments and tags: writes to the database, and the messages that announce them.

A message is confirmed before the database is written, so a crash in between loses no message.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.backend.responses import RequestError
from headrace.functions.run_tracking.messages.envelopes import encode_event, encode_message
from headrace.functions.run_tracking.messages.items import DeleteRun
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store import tables as t
from headrace.functions.run_tracking.store.statements import Upsert, Upserts, delete_run
from headrace.functions.run_tracking.store.tables import id_of_name

_NAME_UPSERTS = {table: Upsert(table) for table in (t.EXPERIMENTS, t.TAGS)}
_RUN_TAGS = Upsert(t.RUN_TAGS)
_COLUMNS = {"name": "name", "description": "description", "archived": "is_archived"}
OUTPUT = "kafka"


class Changes:
    """Writes of edits to one database, one transaction for each call.

    Blocks. Raises SQLAlchemy's errors, after which nothing of the call is written.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._upserts = Upserts(engine.dialect.name)

    def delete_runs(self, run_ids: Iterable[str]) -> None:
        """Delete runs with all their rows. Messages of them that come later have no effect."""
        with self._engine.begin() as connection:
            for run_id in sorted(set(run_ids)):  # sorted, so that two deletions can't deadlock
                delete_run(connection, self._upserts, run_id)

    def clear_tombstone(self, run_id: str) -> None:
        """Forget that a run was deleted, so that its id may be used again."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(t.TOMBSTONES).where(t.TOMBSTONES.c.run_id == run_id))

    def archive_runs(self, run_ids: Iterable[str], *, archived: bool) -> None:
        """Set whether runs are archived."""
        with self._engine.begin() as connection:
            for run_id in sorted(set(run_ids)):
                of_it = sa.update(t.RUNS).where(t.RUNS.c.id == run_id)
                connection.execute(of_it.values(is_archived=archived))

    def update_run(self, run_id: str, changes: Mapping[str, Any]) -> None:
        """Set columns of a run. `changes` may have name, description, archived and experiment.

        An experiment is given by name and created if it is new; an empty name takes the run out of its
        experiment.
        """
        values = {_COLUMNS[name]: value for name, value in changes.items() if name in _COLUMNS}
        with self._engine.begin() as connection:
            if (experiment := changes.get("experiment")) is not None:
                values["experiment_id"] = self._get_or_create(connection, t.EXPERIMENTS, experiment)
            if values:
                connection.execute(sa.update(t.RUNS).where(t.RUNS.c.id == run_id).values(**values))

    def create(self, table: sa.Table, name: str) -> str | None:
        """Create an experiment or a tag unless it exists; return its id."""
        with self._engine.begin() as connection:
            return self._get_or_create(connection, table, name)

    def add_tag(self, run_id: str, name: str) -> str | None:
        """Tag a run; return the tag's id. None if the run doesn't exist, or was deleted meanwhile."""
        with self._engine.begin() as connection:
            # The row stays locked: a run that is deleted at the same time gets no tag after that.
            run = sa.select(t.RUNS.c.id).where(t.RUNS.c.id == run_id).with_for_update(read=True)
            if connection.execute(run).first() is None:
                return None
            tag_id = self._get_or_create(connection, t.TAGS, name)
            self._upserts.write(connection, _RUN_TAGS, [(run_id, tag_id)])
            return tag_id

    def remove_tag(self, run_id: str, tag_id: str) -> bool:
        """Remove a tag from a run; return whether the run had it."""
        r = t.RUN_TAGS.c
        with self._engine.begin() as connection:
            gone = connection.execute(sa.delete(t.RUN_TAGS).where(r.run_id == run_id, r.tag_id == tag_id))
            return gone.rowcount > 0

    def delete_experiment(self, key: str) -> None:
        """Delete an experiment. Its runs stay, without an experiment."""
        with self._engine.begin() as connection:
            # No foreign key ties a run to its experiment, so the database wouldn't do this.
            of_it = sa.update(t.RUNS).where(t.RUNS.c.experiment_id == key)
            connection.execute(of_it.values(experiment_id=None))
            connection.execute(sa.delete(t.EXPERIMENTS).where(t.EXPERIMENTS.c.id == key))

    def delete_tag(self, key: str) -> None:
        """Delete a tag and remove it from all runs."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(t.RUN_TAGS).where(t.RUN_TAGS.c.tag_id == key))
            connection.execute(sa.delete(t.TAGS).where(t.TAGS.c.id == key))

    def _get_or_create(self, connection: sa.Connection, table: sa.Table, name: str) -> str | None:
        if not name:
            return None
        # An upsert, and no read before it: two that create the same name at once write the same id.
        key = id_of_name(name)
        self._upserts.write(connection, _NAME_UPSERTS[table], [(key, name)])
        return key


class ChangePublisher:
    """Publishes edits to the two topics.

    Blocks until brokers have confirmed all messages of a call. Raises RequestError with status 503 if they
    don't in time.
    """

    def __init__(self, context: Any, settings: Settings) -> None:
        self._context = context
        self._settings = settings

    def delete_runs(self, run_ids: Iterable[str]) -> None:
        """Send `delete_run` to data-ingestion, behind all earlier messages of each run.

        Ingestion deletes the run again when it comes to the message, and tells `control`, which deletes
        the blobs.
        """
        topic, now = self._settings.data_ingestion_topic, datetime.now(UTC)
        self._publish([(topic, encode_message(run_id, DeleteRun(), now), run_id) for run_id in run_ids])

    def archive_runs(self, run_ids: Iterable[str], *, archived: bool) -> None:
        """Send an event for each run that is archived, or no longer is."""
        kind = "run_archived" if archived else "run_unarchived"
        self._events([(kind, {"run_id": run_id, "archived": archived}) for run_id in run_ids])

    def delete_experiment(self, key: str) -> None:
        """Send the event that an experiment is deleted."""
        self._events([("experiment_deleted", {"experiment_id": key})])

    def delete_tag(self, key: str) -> None:
        """Send the event that a tag is deleted."""
        self._events([("tag_deleted", {"tag_id": key})])

    def _events(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        topic, now = self._settings.control_events_topic, datetime.now(UTC)
        self._publish([(topic, encode_event(kind, now, **payload), None) for kind, payload in events])

    def _publish(self, messages: Iterable[tuple[str, bytes, str | None]]) -> None:
        deadline = time.monotonic() + self._settings.publish_timeout_seconds
        produce = self._context.produce
        try:
            # All are sent before the first is awaited: they share the timeout.
            sent = [produce(topic, value, key=key, output=OUTPUT) for topic, value, key in messages]
            for one in sent:
                one.result(max(0.001, deadline - time.monotonic()))
        except Exception as error:  # also of produce itself, as for an output that doesn't exist
            reason = " ".join(str(error).split()) or type(error).__name__
            self._context.logger.warn_with("a change can't be published: its request gets 503", error=reason)
            raise RequestError(503, "no broker has confirmed the change in time: try again") from None
