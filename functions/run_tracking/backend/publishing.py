"""Messages to the two topics. They are there before the database says so: a crash in between loses none."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from headrace.functions.run_tracking.backend.responses import RequestError
from headrace.functions.run_tracking.messages.envelopes import encode_event, encode_message
from headrace.functions.run_tracking.messages.items import DeleteRun
from headrace.functions.run_tracking.settings import Settings

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
