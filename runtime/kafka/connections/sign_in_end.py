"""A sign-in that its broker will end (connections.max.reauth.ms, a token's time): a new one before that.

Such a broker hangs up on the first request that comes later, and that would look like an outage each time.
"""

import asyncio
import weakref
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason

_AUTHENTICATE = 36
_PART = 0.8
"""Of its time: as much as is left has to do for what is asked last."""


def sign_in_seconds(asked: Any, answer: Any) -> float | None:
    """For how long this answer signs in; None where it does so for good, or is about something else."""
    lifetime_ms = getattr(answer, "session_lifetime_ms", 0) if asked.API_KEY == _AUTHENTICATE else 0
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


def end_sign_in(connection: AIOKafkaConnection, seconds: float) -> None:
    """It ends in so many, and this connection before that: as soon as nothing is asked over it."""
    loop = asyncio.get_running_loop()
    connection.sign_in_due = loop.time() + _PART * seconds
    loop.call_at(connection.sign_in_due, _end_if_due, weakref.ref(connection))


def end_if_due(connection: AIOKafkaConnection) -> None:
    """To be called after each answer. The next request has another connection made, which signs in anew."""
    due = getattr(connection, "sign_in_due", None)
    if due is not None and not connection._requests and asyncio.get_running_loop().time() >= due:  # noqa: SLF001
        connection.close(CloseReason.IDLE_DROP)


def _end_if_due(known: weakref.ref[AIOKafkaConnection]) -> None:
    if (connection := known()) is not None:
        end_if_due(connection)
