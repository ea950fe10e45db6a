"""What requests change in the database. A transaction for each call."""

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

_NAMES = {table: Upsert(table) for table in (t.EXPERIMENTS, t.TAGS)}


_RUN_TAGS = Upsert(t.RUN_TAGS)


_COLUMNS = {"name": "name", "description": "description", "archived": "is_archived"}


class Changes:
    """Blocks, and raises SQLAlchemy's errors: nothing of the call is there then."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._upserts = Upserts(engine.dialect.name)

    def delete_runs(self, run_ids: Iterable[str]) -> None:
        """With all that is theirs; what comes later of them has no effect."""
        with self._engine.begin() as connection:
            for run_id in sorted(set(run_ids)):  # in order, for two may delete at once
                delete_run(connection, self._upserts, run_id)

    def clear_tombstone(self, run_id: str) -> None:
        """So that the run may come again."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(t.TOMBSTONES).where(t.TOMBSTONES.c.run_id == run_id))

    def archive_runs(self, run_ids: Iterable[str], *, archived: bool) -> None:
        """Or take them back."""
        with self._engine.begin() as connection:
            for run_id in sorted(set(run_ids)):
                of_it = sa.update(t.RUNS).where(t.RUNS.c.id == run_id)
                connection.execute(of_it.values(is_archived=archived))

    def update_run(self, run_id: str, changes: Mapping[str, Any]) -> None:
        """`changes` may have name, description, archived, experiment: a name, or empty for none."""
        values = {_COLUMNS[name]: value for name, value in changes.items() if name in _COLUMNS}
        with self._engine.begin() as connection:
            if (experiment := changes.get("experiment")) is not None:
                values["experiment_id"] = self._keep(connection, t.EXPERIMENTS, experiment)
            if values:
                connection.execute(sa.update(t.RUNS).where(t.RUNS.c.id == run_id).values(**values))

    def create(self, table: sa.Table, name: str) -> str | None:
        """An experiment, or a tag, that may be there already; its id."""
        with self._engine.begin() as connection:
            return self._keep(connection, table, name)

    def add_tag(self, run_id: str, name: str) -> str | None:
        """The tag's id; None where no run is, or none any more."""
        with self._engine.begin() as connection:
            run = sa.select(t.RUNS.c.id).where(t.RUNS.c.id == run_id).with_for_update(read=True)
            if connection.execute(run).first() is None:
                return None
            tag_id = self._keep(connection, t.TAGS, name)
            self._upserts.write(connection, _RUN_TAGS, [(run_id, tag_id)])
            return tag_id

    def remove_tag(self, run_id: str, tag_id: str) -> bool:
        """Whether the run had it."""
        r = t.RUN_TAGS.c
        with self._engine.begin() as connection:
            gone = connection.execute(sa.delete(t.RUN_TAGS).where(r.run_id == run_id, r.tag_id == tag_id))
            return gone.rowcount > 0

    def delete_experiment(self, key: str) -> None:
        """Its runs stay, and have none then."""
        with self._engine.begin() as connection:
            of_it = sa.update(t.RUNS).where(t.RUNS.c.experiment_id == key)
            connection.execute(of_it.values(experiment_id=None))
            connection.execute(sa.delete(t.EXPERIMENTS).where(t.EXPERIMENTS.c.id == key))

    def delete_tag(self, key: str) -> None:
        """And take it off all runs."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(t.RUN_TAGS).where(t.RUN_TAGS.c.tag_id == key))
            connection.execute(sa.delete(t.TAGS).where(t.TAGS.c.id == key))

    def _keep(self, connection: sa.Connection, table: sa.Table, name: str) -> str | None:
        if not name:
            return None
        key = id_of_name(name)
        self._upserts.write(connection, _NAMES[table], [(key, name)])
        return key


OUTPUT = "kafka"


class ChangePublisher:
    """Blocks until brokers have confirmed all of a call. Raises RequestError, 503, where they don't."""

    def __init__(self, context: Any, settings: Settings) -> None:
        self._context = context
        self._settings = settings

    def delete_runs(self, run_ids: Iterable[str]) -> None:
        """Who ingests does it, too, behind all that has come of the run before, and tells `control`."""
        topic, now = self._settings.data_ingestion_topic, datetime.now(UTC)
        self._publish([(topic, encode_message(run_id, DeleteRun(), now), run_id) for run_id in run_ids])

    def archive_runs(self, run_ids: Iterable[str], *, archived: bool) -> None:
        """Or take them back."""
        kind = "run_archived" if archived else "run_unarchived"
        self._events([(kind, {"run_id": run_id, "archived": archived}) for run_id in run_ids])

    def delete_experiment(self, key: str) -> None:
        """Says that it is gone."""
        self._events([("experiment_deleted", {"experiment_id": key})])

    def delete_tag(self, key: str) -> None:
        """Says that it is gone."""
        self._events([("tag_deleted", {"tag_id": key})])

    def _events(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        topic, now = self._settings.control_events_topic, datetime.now(UTC)
        self._publish([(topic, encode_event(kind, now, **payload), None) for kind, payload in events])

    def _publish(self, messages: Iterable[tuple[str, bytes, str | None]]) -> None:
        deadline = time.monotonic() + self._settings.publish_timeout_seconds
        produce = self._context.produce
        try:
            sent = [produce(topic, value, key=key, output=OUTPUT) for topic, value, key in messages]
            for one in sent:
                one.result(max(0.001, deadline - time.monotonic()))
        except Exception as error:  # of produce as well: an output that isn't there
            said = " ".join(str(error).split()) or type(error).__name__
            self._context.logger.warn_with("a change can't be published: its request gets 503", error=said)
            raise RequestError(503, "no broker has confirmed the change in time: try again") from None
