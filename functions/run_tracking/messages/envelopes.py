"""Messages of the two topics, in the JSON of Matyan's services (all their versions)."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headrace.functions.run_tracking.messages.items import (
    RUN_ID,
    AddTag,
    BlobRef,
    CreateRun,
    DeleteRun,
    FinishRun,
    Item,
    ItemError,
    LogCustomObject,
    LogHParams,
    LogMetric,
    LogRecord,
    LogTerminalLine,
    RemoveTag,
    SetRunProperty,
    check_key,
)

_KINDS: tuple[type[Any], ...] = (
    CreateRun,
    LogMetric,
    LogHParams,
    LogCustomObject,
    LogTerminalLine,
    LogRecord,
    BlobRef,
    SetRunProperty,
    AddTag,
    RemoveTag,
    FinishRun,
    DeleteRun,
)


def _name_of(kind: type[Any]) -> str:
    return str(kind.__struct_config__.tag)


# A payload is its item's JSON without the first member, `type`. Reading and writing both rely on that.
_STARTS = MappingProxyType({kind: b'{"type":"%s"' % _name_of(kind).encode() for kind in _KINDS})
# Subclasses without the tag, as a payload has no `type`. What they read is still of the item's own class.
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    _name_of(kind): msgspec.json.Decoder(
        msgspec.defstruct(f"{kind.__name__}Payload", [], bases=(kind,), tag=False, tag_field=None)
    )
    for kind in _KINDS
}


class _Ingestion(Struct):
    type: str
    run_id: str
    timestamp: datetime
    # Left unread until the type has named the decoder.
    payload: Raw = Raw(b"{}")


class _Control(Struct):
    type: str
    timestamp: datetime
    payload: dict[str, Any]


_INGESTION = msgspec.json.Decoder(_Ingestion)
_CONTROL = msgspec.json.Decoder(_Control)
_ENCODER = msgspec.json.Encoder()


class Message(Struct, frozen=True):
    """A message of data-ingestion. `item` is None for an unknown type, which is skipped."""

    type: str
    run_id: str
    time: datetime
    item: Item | None


class ControlEvent(Struct, frozen=True):
    """A message of control-events."""

    type: str
    time: datetime
    payload: Mapping[str, Any]


def encode_messages(run_id: str, items: Iterable[Item], time: datetime) -> list[bytes]:
    """Return message values for items of one run. The key of each is the run's id."""
    between = b',"run_id":"%s","timestamp":"%s","payload":{' % (run_id.encode(), time.isoformat().encode())
    values = []
    for item in items:
        # The item's own JSON, of which the envelope takes over the first member: nothing is encoded twice.
        start = _STARTS[type(item)]
        rest = _ENCODER.encode(item)[len(start) :]
        # An item without fields has no comma.
        values.append(start + between + rest.removeprefix(b",") + b"}")
    return values


def encode_message(run_id: str, item: Item, time: datetime) -> bytes:
    """Return the message value for one item."""
    (value,) = encode_messages(run_id, [item], time)
    return value


def read_message(value: bytes | None) -> Message:
    """Parse a message of data-ingestion.

    Raises ItemError for invalid JSON, missing or wrong members, and invalid ids and keys.
    """
    if value is None:
        raise ItemError("a tombstone is no message")
    try:
        envelope = _INGESTION.decode(value)
        decoder = _DECODERS.get(envelope.type)
        item = decoder.decode(envelope.payload) if decoder else None
    except (ValueError, RecursionError) as error:
        raise ItemError(str(error)) from None
    if not RUN_ID.fullmatch(envelope.run_id):
        raise ItemError(f"{envelope.run_id[:200]!r} is no id of a run")
    # Checked again, as other producers than the frontier may write to the topic.
    if isinstance(item, BlobRef):
        check_key(envelope.run_id, item)
    return Message(envelope.type, envelope.run_id, _aware(envelope.timestamp), item)


def encode_event(kind: str, time: datetime, **payload: Any) -> bytes:
    """Return the value of a control event, which has no key."""
    return _ENCODER.encode({"type": kind, "timestamp": time.isoformat(), "payload": payload})


def read_event(value: bytes | None) -> ControlEvent:
    """Parse a message of control-events. Raises ItemError."""
    if value is None:
        raise ItemError("a tombstone is no event")
    try:
        event = _CONTROL.decode(value)
    except (ValueError, RecursionError) as error:
        raise ItemError(str(error)) from None
    return ControlEvent(event.type, _aware(event.timestamp), event.payload)


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
