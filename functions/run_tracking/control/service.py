"""The control service: deletes the blobs of deleted runs, as events of control-events ask for.

The ack follows the deletion, so a crash in between repeats it, which does no harm.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.functions.retry import retry_until_done
from headrace.functions.run_tracking.blobs.open import open_store
from headrace.functions.run_tracking.blobs.store import BlobError, BlobStore
from headrace.functions.run_tracking.messages.envelopes import ControlEvent, read_event
from headrace.functions.run_tracking.messages.items import RUN_ID, ItemError
from headrace.functions.run_tracking.settings import Settings

WITHOUT_EFFECT = frozenset(
    {"experiment_deleted", "tag_deleted", "run_archived", "run_unarchived", "project_deleted"}
)
"""Types of events with no effect outside of the database, where the backend has made it."""


def effect_of(event: ControlEvent) -> Callable[[BlobStore], None] | None:
    """Return what the event asks to do; None for nothing. Raises ItemError if it is invalid."""
    if event.type != "run_deleted":
        return None
    run_id, keys = event.payload.get("run_id"), event.payload.get("blob_keys") or ()
    # All below the id is deleted: `..` or an empty text would name more than a run.
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise ItemError(f"run_deleted: {str(run_id)[:200]!r} is no id of a run")
    prefix = f"{run_id}/"
    # An event without keys deletes all blobs of its run; one with keys those that came after its end.
    if not keys:
        return lambda store: store.delete_below(prefix)
    own = _own_keys(event.payload, prefix)
    return lambda store: store.delete(own)


def _own_keys(payload: Mapping[str, Any], prefix: str) -> Sequence[str]:
    """Return the event's blob keys. Raises ItemError if one isn't below the run's own prefix."""
    keys = payload["blob_keys"]
    # Otherwise an event about one run could delete blobs of another.
    if not isinstance(keys, list) or not all(isinstance(key, str) and key.startswith(prefix) for key in keys):
        raise ItemError(f"run_deleted: blob_keys has what is not below {prefix}")
    return keys


def prepare(context: Any, settings: Settings) -> None:
    """Open the blob store. Raises SettingsError, BlobError."""
    context.user_data.store = open_store(settings)


def handle(context: Any, event: Any) -> None:
    """Carry out one event, retrying while the blob store can't be reached.

    Raises ItemError for an invalid event, which after its attempts becomes a dead letter.
    """
    message = read_event(event.body)
    effect = effect_of(message)
    if effect is not None:
        retry_until_done(
            lambda: effect(context.user_data.store),
            _describe_outage,
            "blobs can't be deleted: their event waits",
            context.logger,
        )
        context.logger.info_with("the blobs of a deleted run are gone", run=message.payload["run_id"])
    elif message.type not in WITHOUT_EFFECT:
        context.logger.warn_with(
            "an event of a type that nobody knows: it is skipped", type=message.type[:200]
        )


def _describe_outage(error: Exception) -> str | None:
    return str(error) if isinstance(error, BlobError) else None
