"""Events of control-events: what they ask for is done before the ack, so a crash in between repeats it."""

from typing import Any

from headrace.functions.retry import retry_until_done
from headrace.functions.run_tracking.blobs.open import open_store
from headrace.functions.run_tracking.blobs.store import BlobError
from headrace.functions.run_tracking.control.events import WITHOUT_EFFECT, effect_of
from headrace.functions.run_tracking.messages.envelopes import read_event
from headrace.functions.run_tracking.settings import Settings


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
