"""Decoding of inference responses (Open Inference Protocol) from JSON or protobuf into JSON text.

The bytes are stored as they came, whether or not they can be decoded.
"""

import json
import re
from enum import StrEnum
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from headrace.functions.model_metrics.messages.inference_pb2 import ModelInferResponse
from headrace.functions.model_metrics.messages.storable import is_storable, json_of
from headrace.functions.model_metrics.messages.tensors import parameters_of, raw_data, typed_data

_MAGIC = 0
_SCHEMA_ID_BYTES = 4
_MOST_VARINT_BYTES = 10
_MOST_INDEXES = 100  # of messages inside messages
# JSON that Python parses but a database may refuse: characters, huge numbers, NaN and Infinity.
_UNUSUAL = re.compile(r"\\u|[eE][-+]?\d{4}|\d{4000}|NaN|Infinity")
_MOST_WHITE_SPACE = 64  # before a brace; real responses have none


def unframed(value: bytes) -> bytes | None:
    """Return the message behind Confluent's wire format; None if `value` isn't in that format.

    The format is a zero byte, a schema id of 4 bytes, and message indexes as zigzag varints. Source: "Wire
    format" at docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop.
    """
    if len(value) <= 1 + _SCHEMA_ID_BYTES or value[0] != _MAGIC:
        return None
    found = _varint(value, 1 + _SCHEMA_ID_BYTES)
    if found is None:
        return None
    count, at = found
    if not 0 <= count <= _MOST_INDEXES:  # 0 stands for the first message
        return None
    for _ in range(count):
        if (found := _varint(value, at)) is None:
            return None
        _, at = found
    return value[at:]


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the zigzag number at `at` and the position behind it; None if no number is there."""
    number = 0
    for length, byte in enumerate(data[at : at + _MOST_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + length + 1
    return None


class ContentType(StrEnum):
    """Encoding of a response."""

    JSON = "json"
    PROTO = "proto"
    PROTO_WITH_SCHEMA = "proto+sr"
    """Protobuf behind Confluent's wire format."""
    UNKNOWN = "unknown"


class Decoded(NamedTuple):
    """A decoded response. `text` is JSON that both databases store; None if there is none."""

    content_type: ContentType
    text: str | None
    model_version: str | None = None
    """The response's `model_version`, if it has one that can be stored."""


_UNKNOWN = Decoded(ContentType.UNKNOWN, None)


def decode(value: bytes) -> Decoded:
    """Decode a response of any encoding. Never raises: what is neither JSON nor protobuf is UNKNOWN.

    The bytes alone decide, no header: no protobuf response begins with a brace (field 15) or a zero byte.
    """
    if value[:_MOST_WHITE_SPACE].lstrip()[:1] == b"{":
        return _of_json(value)
    if (message := unframed(value)) is not None:
        return _of_protobuf(message, ContentType.PROTO_WITH_SCHEMA)
    return _of_protobuf(value, ContentType.PROTO)


def _of_json(value: bytes) -> Decoded:
    try:
        text = value.decode()
        document = json.loads(text)
        # Only what a database might refuse is written anew; all other JSON is stored as it came.
        stored = json_of(document) if _UNUSUAL.search(text) else text
        return Decoded(ContentType.JSON, stored, _version(document.get("model_version")))
    except (ValueError, RecursionError):
        return _UNKNOWN


def _of_protobuf(value: bytes, content_type: ContentType) -> Decoded:
    try:
        response = ModelInferResponse.FromString(value)
        if not (
            response.model_name or response.outputs
        ):  # random bytes may parse as a message of unknown fields
            return _UNKNOWN
        return Decoded(content_type, json_of(_document(response)), _version(response.model_version))
    except (DecodeError, ValueError):
        return _UNKNOWN


def _version(value: object) -> str | None:
    return value if isinstance(value, str) and value and is_storable(value) else None


def _document(response: ModelInferResponse) -> dict[str, Any]:
    """Return the response as the protocol's JSON. Raises ValueError if contents don't fit their datatype."""
    document: dict[str, Any] = {"model_name": response.model_name}
    for name in ("model_version", "id"):
        if value := getattr(response, name):
            document[name] = value
    if response.parameters:
        document["parameters"] = parameters_of(response.parameters)
    raw = response.raw_output_contents
    # The protocol has either typed contents or raw ones, for all outputs alike.
    if raw and len(raw) != len(response.outputs):
        raise ValueError(f"{len(raw)} raw contents of {len(response.outputs)} outputs")
    document["outputs"] = [
        _tensor(tensor, raw[place] if raw else None) for place, tensor in enumerate(response.outputs)
    ]
    return document


def _tensor(tensor: ModelInferResponse.InferOutputTensor, raw: bytes | None) -> dict[str, Any]:
    datatype = tensor.datatype
    data = typed_data(datatype, tensor.contents) if raw is None else raw_data(datatype, raw)
    found = {"name": tensor.name, "shape": list(tensor.shape), "datatype": datatype, "data": data}
    return found | ({"parameters": parameters_of(tensor.parameters)} if tensor.parameters else {})
