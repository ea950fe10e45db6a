"""What a handler gets as `context`: nuclio_sdk's, with what this runtime adds."""

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import nuclio_sdk

HANDLER_LOGGER = "headrace.handler"


class Platform(nuclio_sdk.Platform):  # type: ignore[misc]  # the SDK is untyped
    """`context.platform`, with the callbacks that Nuclio's documentation names."""

    async def explicit_ack(self, qualified_offset: nuclio_sdk.QualifiedOffset) -> NoReturn:
        """Refused: this version acks by returning only."""
        raise RuntimeError(
            f"explicit_ack({qualified_offset.topic}/{qualified_offset.partition}/{qualified_offset.offset}): "
            "explicitAckMode is disable, so records are acked when the handler returns"
        )

    def on_signal(self, callback: Callable[[], Any]) -> None:
        """Have `callback` called, without arguments, when partitions leave and when the replica stops.

        Sync or async. It runs while handlers run: on their event loop if that turns, else in another thread.
        """
        self.set_drain_callback(callback)
        self.set_termination_callback(callback)

    @property
    def drain_callback(self) -> Callable[[], Any] | None:
        """What `set_drain_callback` was given last."""
        callback: Callable[[], Any] | None = self._drain_callback
        return callback

    @property
    def termination_callback(self) -> Callable[[], Any] | None:
        """What `set_termination_callback` was given last."""
        callback: Callable[[], Any] | None = self._termination_callback
        return callback


def create_context(worker_id: int, trigger: nuclio_sdk.TriggerInfo) -> nuclio_sdk.Context:
    """The one context of a worker process. `worker_id` is a string in handlers, as in Nuclio."""
    return nuclio_sdk.Context(
        logger=nuclio_sdk.Logger(logging.DEBUG, HANDLER_LOGGER),
        platform=Platform("local"),
        worker_id=str(worker_id),
        trigger=trigger,
    )
