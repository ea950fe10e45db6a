"""What a client says of its run, item by item: a WebSocket's frame holds one, or a list of them.

An item is flat, `type` says which it is. The same fields, without `type`, are the payload of its message.
"""

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from headrace.functions.run_tracking.messages.validation import check_blob_key, check_context, check_depth

RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""Of a ULID, a UUID, and whatever else is one name of a folder."""
MOST_ITEM_BYTES = 1_000_000
"""Of one message: what a broker takes by default, without the envelope."""

Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
"""An index of PostgreSQL takes no more, whatever the letters."""
Identity: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
"""Of a message, by whoever sends it: the same each time. For what has no step to be known by."""
Title: TypeAlias = Annotated[str, Meta(max_length=512)]
"""Of a run: many are listed at once."""
Description: TypeAlias = Annotated[str, Meta(max_length=100_000)]
Dtype: TypeAlias = Annotated[str, Meta(max_length=100)]
ContentType: TypeAlias = Annotated[str, Meta(max_length=255)]
Number: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"] | None
"""JSON has no word for what isn't finite: Python writes a bare NaN, JavaScript null, pydantic text."""


class CreateRun(Struct, tag_field="type", tag="create_run", omit_defaults=True):
    client_datetime: datetime | None = None
    force_resume: bool = False


class LogMetric(Struct, tag_field="type", tag="log_metric", omit_defaults=True):
    name: Name
    value: Number
    step: Int64 | None = None
    epoch: Int64 | None = None
    context: dict[str, Any] | None = None
    dtype: Dtype | None = None
    client_datetime: datetime | None = None
    message_id: Identity | None = None

    def __post_init__(self) -> None:
        """Raises ValueError."""
        check_context(self.context)


class LogHParams(Struct, tag_field="type", tag="log_hparams"):
    value: Any
    """Nothing but an object has an effect."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        check_depth(self.value)


class LogCustomObject(Struct, tag_field="type", tag="log_custom_object", omit_defaults=True):
    name: Name
    value: dict[str, Any]
    step: Int64 | None = None
    epoch: Int64 | None = None
    context: dict[str, Any] | None = None
    dtype: Dtype | None = None
    client_datetime: datetime | None = None
    message_id: Identity | None = None

    def __post_init__(self) -> None:
        """Raises ValueError."""
        check_context(self.context)
        check_depth(self.value)


class LogTerminalLine(Struct, tag_field="type", tag="log_terminal_line"):
    line: str
    step: Int64


class LogRecord(Struct, tag_field="type", tag="log_record", omit_defaults=True):
    message: str
    level: Int64
    timestamp: float
    logger_info: list[Any] | None = None
    extra_args: dict[str, Any] | None = None
    message_id: Identity | None = None

    def __post_init__(self) -> None:
        """Raises ValueError."""
        check_depth(self.logger_info)
        check_depth(self.extra_args)


class BlobRef(Struct, tag_field="type", tag="blob_ref", omit_defaults=True):
    """Says that an artifact is in the store. `s3_key` and `blob_key` are two spellings of one field."""

    artifact_path: Name
    content_type: ContentType = "application/octet-stream"
    s3_key: str | None = None
    blob_key: str | None = None

    def __post_init__(self) -> None:
        """One spelling goes on: the one that all readers know. Raises ValueError without any."""
        self.s3_key, self.blob_key = self.s3_key or self.blob_key, None
        if not self.s3_key:
            raise ValueError("a blob_ref needs an s3_key, or a blob_key")


class SetRunProperty(Struct, tag_field="type", tag="set_run_property", omit_defaults=True):
    """What isn't there stays as it is."""

    name: Title | None = None
    description: Description | None = None
    archived: bool | None = None
    experiment: Name | None = None


class AddTag(Struct, tag_field="type", tag="add_tag"):
    tag_name: Name


class RemoveTag(Struct, tag_field="type", tag="remove_tag"):
    tag_name: Name


class FinishRun(Struct, tag_field="type", tag="finish_run", omit_defaults=True):
    client_datetime: datetime | None = None


class DeleteRun(Struct, tag_field="type", tag="delete_run"):
    """Comes from the backend, never from a client."""


ClientItem: TypeAlias = (
    CreateRun
    | LogMetric
    | LogHParams
    | LogCustomObject
    | LogTerminalLine
    | LogRecord
    | BlobRef
    | SetRunProperty
    | AddTag
    | RemoveTag
    | FinishRun
)
Item: TypeAlias = ClientItem | DeleteRun
_Frame: TypeAlias = ClientItem | list[ClientItem]
_FRAME = msgspec.json.Decoder(_Frame)


class ItemError(Exception):
    """What is wrong with a frame, or a message, in one line for whoever sent it."""


def read_frame(run_id: str, text: bytes | str) -> list[ClientItem]:
    """All of a frame, or nothing of it: raises ItemError for the first item that is none."""
    try:
        frame = _read(text)
    except (ValueError, RecursionError) as error:  # of msgspec's both are ValueErrors
        raise ItemError(str(error)) from None
    items = frame if isinstance(frame, list) else [frame]
    for item in items:
        if isinstance(item, BlobRef):
            check_key(run_id, item)
    return items


def _read(text: bytes | str) -> _Frame:
    try:
        found: _Frame = _FRAME.decode(text)
        return found  # noqa: TRY300  # mypy asks for its name
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # no JSON: but json.dumps of Python writes NaN for what isn't a number
        document = json.loads(text, parse_constant=str)
        frame: _Frame = msgspec.convert(document, _Frame)
        return frame


def check_key(run_id: str, ref: BlobRef) -> None:
    """A run has no say in what is another one's. Raises ItemError."""
    key = str(ref.s3_key)
    try:
        check_blob_key(key)
    except ValueError as error:
        raise ItemError(str(error)) from None
    if not key.startswith(f"{run_id}/"):
        raise ItemError(f"the key {key[:200]!r} is not below {run_id}/")
