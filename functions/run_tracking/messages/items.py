"""Items: what a client can log of a run. A WebSocket frame has one item, or a list of them.

An item is a flat JSON object; `type` names its kind. The same fields without `type` are the payload of its
message. Kinds and fields are those of Matyan's client (PyPI: matyan-client).
"""

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from headrace.functions.run_tracking.messages.validation import check_blob_key, check_context, check_depth

# No dot comes first: `..` is another folder, and the store's own names begin with one.
RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""Pattern of run ids: ULIDs, UUIDs, and anything else that is one name of a folder."""
MOST_ITEM_BYTES = 1_000_000
"""Most bytes of one message: a broker's default of 1 MiB, less the envelope."""

Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
"""Bounded, so that an index of PostgreSQL can hold it, whatever the characters."""
Identity: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
"""Identity that the sender gives a message, the same each time: for items without a step."""
Title: TypeAlias = Annotated[str, Meta(max_length=512)]
"""Name of a run; bounded, as many are listed at once."""
Description: TypeAlias = Annotated[str, Meta(max_length=100_000)]
Dtype: TypeAlias = Annotated[str, Meta(max_length=100)]
ContentType: TypeAlias = Annotated[str, Meta(max_length=255)]
Number: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"] | None
"""Number, or a spelling of what JSON has none for: Python writes NaN, JavaScript null, pydantic text."""


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
        """Raise ValueError if the context is too large or nested too deep."""
        check_context(self.context)


class LogHParams(Struct, tag_field="type", tag="log_hparams"):
    value: Any
    """Hyperparameters; anything but an object has no effect."""

    def __post_init__(self) -> None:
        """Raise ValueError if the value is nested too deep."""
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
        """Raise ValueError if the context is too large, or anything is nested too deep."""
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
        """Raise ValueError if anything is nested too deep."""
        check_depth(self.logger_info)
        check_depth(self.extra_args)


class BlobRef(Struct, tag_field="type", tag="blob_ref", omit_defaults=True):
    """Item that makes stored bytes an artifact. `s3_key` and `blob_key` are two spellings of one field."""

    artifact_path: Name
    content_type: ContentType = "application/octet-stream"
    s3_key: str | None = None
    blob_key: str | None = None

    def __post_init__(self) -> None:
        """Keep `s3_key`, the spelling that all readers know. Raises ValueError if neither is set."""
        self.s3_key, self.blob_key = self.s3_key or self.blob_key, None
        if not self.s3_key:
            raise ValueError("a blob_ref needs an s3_key, or a blob_key")


class SetRunProperty(Struct, tag_field="type", tag="set_run_property", omit_defaults=True):
    """Item that sets properties of a run. A missing one stays as it is."""

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
    """Item that deletes a run. Sent by the backend, never by a client."""


# Without DeleteRun, so that a frame that has one is refused.
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
    """A frame or message is invalid. The message is one line for the sender."""


def read_frame(run_id: str, text: bytes | str) -> list[ClientItem]:
    """Parse a frame. Raises ItemError for the first invalid item; nothing of the frame counts then."""
    try:
        frame = _read(text)
    except (ValueError, RecursionError) as error:  # both of msgspec's errors are ValueErrors
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
    # A subclass of DecodeError: this is JSON but no item, and Python's reader would find the same.
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # Python's json.dumps writes a bare NaN, which isn't JSON
        # NaN and Infinity become the texts that Number takes.
        document = json.loads(text, parse_constant=str)
        frame: _Frame = msgspec.convert(document, _Frame)
        return frame


def check_key(run_id: str, ref: BlobRef) -> None:
    """Raise ItemError if the key of a blob isn't valid, or isn't below the run's own id."""
    key = str(ref.s3_key)
    try:
        check_blob_key(key)
    except ValueError as error:
        raise ItemError(str(error)) from None
    # A run's deletion takes what is below its id: a blob elsewhere would stay, or go with another run.
    if not key.startswith(f"{run_id}/"):
        raise ItemError(f"the key {key[:200]!r} is not below {run_id}/")
