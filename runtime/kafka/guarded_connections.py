"""Every connection of this process to a broker, guarded. Reaches into aiokafka, pinned to 0.14."""

import asyncio
import ssl
import weakref
from functools import partial
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import CorrelationIdError, KafkaConnectionError, KafkaError

from headrace.runtime.kafka.answer_checks import AnswerDecoder, AnswerWarnings, BoundedReader, refuse_nulls
from headrace.runtime.kafka.not_a_broker import (
    NotABrokerError,
    UnreadableAnswerError,
    address,
    closing,
    handshake_failed,
    silent,
)

# Kafka's number of SaslAuthenticate.
_AUTHENTICATE = 36
_PART = 0.8
"""Part of a sign-in's time after which the connection is closed: the rest is for the last request."""


def sign_in_seconds(asked: Any, answer: Any) -> float | None:
    """Return for how long this answer signs in; None: for good, or it is about something else."""
    lifetime_ms = getattr(answer, "session_lifetime_ms", 0) if asked.API_KEY == _AUTHENTICATE else 0
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


def end_sign_in(connection: AIOKafkaConnection, seconds: float) -> None:
    """Close the connection before its sign-in ends, in `seconds`, as soon as no request is open on it."""
    loop = asyncio.get_running_loop()
    connection.sign_in_due = loop.time() + _PART * seconds
    # Weakly: the timer must not keep a connection that was closed long before.
    loop.call_at(connection.sign_in_due, _end_if_due, weakref.ref(connection))


def end_if_due(connection: AIOKafkaConnection) -> None:
    """Close a connection whose sign-in ends soon. To be called after each answer.

    The next request has another connection made, which signs in anew.
    """
    due = getattr(connection, "sign_in_due", None)
    if due is not None and not connection._requests and asyncio.get_running_loop().time() >= due:  # noqa: SLF001
        connection.close(CloseReason.IDLE_DROP)


def _end_if_due(known: weakref.ref[AIOKafkaConnection]) -> None:
    if (connection := known()) is not None:
        end_if_due(connection)


FIRST_ANSWER_SECONDS = 5.0
"""Whoever has said nothing by then is left, and the next address is tried."""
_PROBE_SECONDS = 1.0
_WARNINGS = AnswerWarnings()
_CLASS: Any = AIOKafkaConnection
_UNGUARDED = {name: getattr(_CLASS, name) for name in ("connect", "_do_version_lookup", "_handle_frame")}
_READ = _CLASS._create_reader_task  # noqa: SLF001


def guard_connections() -> None:
    """Guard each new connection of this process to a broker. Idempotent."""
    if _CLASS.connect is not _connect:
        refuse_nulls()
        _CLASS.connect, _CLASS._do_version_lookup = _connect, _look_up_versions  # noqa: SLF001
        _CLASS._create_reader_task, _CLASS._handle_frame = _read_bounded, _handle_frame  # noqa: SLF001


async def _connect(connection: Any) -> Any:
    """Connect as aiokafka does. Raises NotABrokerError besides."""
    where = _where(connection)
    try:
        async with asyncio.timeout(FIRST_ANSWER_SECONDS) as connection.first_answer_timeout:
            return await _UNGUARDED["connect"](connection)
    except TimeoutError:
        if not connection.first_answer_timeout.expired():
            raise
        # Somebody listens and says nothing: another advice than for nobody at all.
        if await _accepts(connection):
            raise silent(FIRST_ANSWER_SECONDS).at(where) from None
        raise TimeoutError(f"{where} takes no connection within {FIRST_ANSWER_SECONDS:g} s") from None
    # The other side does speak TLS: a certificate that isn't trusted has a line of its own (refusals.py).
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, KafkaError) as error:
        if (stranger := _stranger(connection, error)) is not None:
            raise stranger.at(where) from error
        raise
    except Exception as error:  # an address that is none, in its own list; a sign-in that makes no sense
        raise NotABrokerError(f"can't be talked to ({type(error).__name__}: {error})", where=where) from error


def _stranger(connection: Any, error: BaseException) -> NotABrokerError | None:
    """Return the NotABrokerError that this error tells of, or None."""
    cause = error.__cause__
    if isinstance(cause, NotABrokerError):
        return cause
    if isinstance(error, CorrelationIdError):
        return NotABrokerError("does not speak Kafka: it answers what nobody has asked")
    is_tls, has_shaken = connection._ssl_context is not None, connection._protocol is not None  # noqa: SLF001
    if is_tls and not has_shaken and isinstance(error, ssl.SSLError | ConnectionResetError):
        return handshake_failed(getattr(error, "reason", "") or "")
    is_over = isinstance(error, KafkaConnectionError) and isinstance(cause, EOFError | OSError)
    return closing() if is_over and not is_tls and not connection._versions else None  # noqa: SLF001


async def _look_up_versions(connection: Any) -> None:
    """Ask for API versions. Whoever answers speaks Kafka: the timeout of the first answer ends."""
    await _UNGUARDED["_do_version_lookup"](connection)
    connection.first_answer_timeout.reschedule(None)


def _read_bounded(connection: Any) -> Any:
    # The reader has a connection's buffer already: it can't be replaced, so it gets the bound as its class.
    connection._reader.__class__ = BoundedReader  # noqa: SLF001
    return _READ(connection)


def _handle_frame(connection: Any, frame: bytes) -> None:
    """Handle an answer as aiokafka does. Raises UnreadableAnswerError, which closes the connection."""
    pending = connection._requests  # noqa: SLF001
    asked = pending[0][1] if pending else None
    if asked is not None:
        # On this one request: the class's own decoder stays as it is for others.
        asked.RESPONSE_TYPE = AnswerDecoder(asked, partial(_on_read, connection, asked))
    try:
        _UNGUARDED["_handle_frame"](connection, frame)
    except Exception as error:
        unreadable = error if isinstance(error, UnreadableAnswerError) else _unexpected(asked)
        found = unreadable.at(_where(connection))
        if connection._versions:  # before that, whoever connects says it  # noqa: SLF001
            _WARNINGS.warn(found)
        raise found from error
    end_if_due(connection)


def _unexpected(asked: Any) -> UnreadableAnswerError:
    if asked is None:
        return UnreadableAnswerError("gives an answer that nobody has asked for")
    return UnreadableAnswerError(f"gives an unreadable answer to {type(asked).__name__}")


def _on_read(connection: Any, asked: Any, answer: Any) -> None:
    if (seconds := sign_in_seconds(asked, answer)) is not None:
        end_sign_in(connection, seconds)


async def _accepts(connection: Any) -> bool:
    """Whether anybody listens there. A handshake that isn't answered doesn't tell."""
    if connection._protocol is not None:  # noqa: SLF001
        return True
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(connection.host, connection.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _where(connection: Any) -> str:
    return address(connection.host, connection.port)
