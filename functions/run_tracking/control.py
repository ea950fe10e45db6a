"""What each kind of event asks for outside of the database. Doing it again does no harm."""

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


"""Outside of the database, where the backend has done it."""


def effect_of(event: ControlEvent) -> Callable[[BlobStore], None] | None:
    """None where there is none. Raises ItemError for an event that can't be carried out."""
    if event.type != "run_deleted":
        return None
    run_id, keys = event.payload.get("run_id"), event.payload.get("blob_keys") or ()
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise ItemError(f"run_deleted: {str(run_id)[:200]!r} is no id of a run")
    prefix = f"{run_id}/"
    if not keys:
        return lambda store: store.delete_below(prefix)
    own = _own(event.payload, prefix)
    return lambda store: store.delete(own)


def _own(payload: Mapping[str, Any], prefix: str) -> Sequence[str]:
    """A run's end has no say in what is another one's."""
    keys = payload["blob_keys"]
    if not isinstance(keys, list) or not all(isinstance(key, str) and key.startswith(prefix) for key in keys):
        raise ItemError(f"run_deleted: blob_keys has what is not below {prefix}")
    return keys


def prepare(context: Any, settings: Settings) -> None:
    """Raises SettingsError, BlobError."""
    context.user_data.store = open_store(settings)


def handle(context: Any, event: Any) -> None:
    """Raises ItemError for what is no event: it is tried again, and then a dead letter."""
    said = read_event(event.body)
    effect = effect_of(said)
    if effect is not None:
        retry_until_done(
            lambda: effect(context.user_data.store),
            _away,
            "blobs can't be deleted: their event waits",
            context.logger,
        )
        context.logger.info_with("the blobs of a deleted run are gone", run=said.payload["run_id"])
    elif said.type not in WITHOUT_EFFECT:
        context.logger.warn_with("an event of a type that nobody knows: it is skipped", type=said.type[:200])


def _away(error: Exception) -> str | None:
    return str(error) if isinstance(error, BlobError) else None
