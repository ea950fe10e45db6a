"""The ingestion service: writes batches of data-ingestion, then announces deleted runs to control-events.

A batch is acked by returning, after the database has it and the broker has what was produced. A crash in
between repeats both, which changes nothing.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.functions.database.engine import open_engine
from headrace.functions.database.retry import retry_write
from headrace.functions.database.schema import migrate
from headrace.functions.events import Event
from headrace.functions.run_tracking.ingestion.folding import Sourced
from headrace.functions.run_tracking.ingestion.writer import BatchOutcome, BatchWriter
from headrace.functions.run_tracking.messages.envelopes import encode_event, read_message
from headrace.functions.run_tracking.messages.items import ItemError
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store.tables import MIGRATIONS


def prepare(context: Any, settings: Settings) -> None:
    """Migrate the database, which may take until it can be reached."""
    data = context.user_data
    engine = open_engine(settings.database)
    retry_write(lambda: migrate(engine, MIGRATIONS), context.logger)
    data.writer = BatchWriter(engine, settings.messages_per_transaction, settings.run_bounds)
    data.control_topic = settings.control_events_topic


def handle(context: Any, events: Sequence[Any]) -> Any:
    """Write a batch, retrying while the database can't be reached.

    Returns None, or if any event has failed a response for each: failed ones are retried, then dead letters.
    """
    messages, failed = _read(context, events)
    outcome = BatchOutcome()

    def write() -> None:
        nonlocal outcome
        # Anew for each attempt: what an attempt that broke off has found is dropped.
        outcome = context.user_data.writer.write(messages)

    retry_write(write, context.logger)
    _announce(context, outcome)
    failed |= outcome.failed
    return [_response(context, event, failed.get(source_of(event))) for event in events] if failed else None


def _read(context: Any, events: Sequence[Any]) -> tuple[list[Sourced], dict[str, str]]:
    messages, failed = [], {}
    for event in events:
        try:
            message = read_message(event.body)
        except ItemError as error:
            # Fails alone: the rest of the batch is written, and doesn't wait for it.
            failed[source_of(event)] = str(error)
            continue
        if message.item is None:
            context.logger.warn_with(
                "a message of a type that nobody knows: it is skipped", type=message.type[:200], id=event.id
            )
        else:
            messages.append(Sourced(source_of(event), message))
    return messages, failed


def _announce(context: Any, outcome: BatchOutcome) -> None:
    """Produce `run_deleted` events, before the ack of the messages that deleted the runs.

    A run that is deleted again is announced again: its blobs may have come in between.
    """
    now = datetime.now(UTC)
    events = [encode_event("run_deleted", now, run_id=run_id) for run_id in sorted(outcome.deleted)]
    events += [
        encode_event("run_deleted", now, run_id=run_id, blob_keys=keys)
        for run_id, keys in outcome.late_blobs.items()
    ]
    for event in events:
        # Not awaited: the runtime acks the batch only once the broker has confirmed what it produced.
        context.produce(context.user_data.control_topic, event)


def source_of(event: Event) -> str:
    """Return the identity of a message: topic, partition, offset and timestamp.

    The timestamp tells records of a topic that was made anew from those of the old one.
    """
    at = event.timestamp
    milliseconds = -1 if at is None else round(at.replace(tzinfo=UTC).timestamp() * 1000)
    return f"{event.topic}/{event.shard_id}/{event.offset}/{milliseconds}"


def _response(context: Any, event: Any, reason: str | None) -> Any:
    # By event_id the runtime tells which event a response is for; a status of 500 or more fails it.
    response = context.Response(body=reason or "", status_code=500 if reason else 200)
    response.event_id = event.id
    return response
