"""What a handler gets as `context`: nuclio_sdk's, with what this runtime adds and what it does not do yet."""

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import nuclio_sdk

HANDLER_LOGGER = "headrace.handler"


class Platform(nuclio_sdk.Platform):  # type: ignore[misc]  # the SDK is untyped
    """`context.platform`. Each refusal says what is missing: nothing is accepted in silence."""

    async def explicit_ack(self, qualified_offset: nuclio_sdk.QualifiedOffset) -> NoReturn:
        """Refused: this version acks by returning only."""
        raise RuntimeError(
            f"explicit_ack({qualified_offset.topic}/{qualified_offset.partition}/{qualified_offset.offset}): "
            "explicitAckMode is disable, so records are acked when the handler returns"
        )

    def set_drain_callback(self, callback: Callable[[], Any]) -> NoReturn:
        """Refused: not built into this version."""
        raise RuntimeError(f"set_drain_callback({callback!r}) is not built into this version of Headrace yet")

    def set_termination_callback(self, callback: Callable[[], Any]) -> NoReturn:
        """Refused: not built into this version."""
        raise RuntimeError(
            f"set_termination_callback({callback!r}) is not built into this version of Headrace yet"
        )

    def on_signal(self, callback: Callable[[], Any]) -> NoReturn:
        """Refused: not built into this version."""
        raise RuntimeError(f"on_signal({callback!r}) is not built into this version of Headrace yet")


def create_context(worker_id: int, trigger: nuclio_sdk.TriggerInfo) -> nuclio_sdk.Context:
    """The one context of a worker process. `worker_id` is a string in handlers, as in Nuclio."""
    return nuclio_sdk.Context(
        logger=nuclio_sdk.Logger(logging.DEBUG, HANDLER_LOGGER),
        platform=Platform("local"),
        worker_id=str(worker_id),
        trigger=trigger,
    )
