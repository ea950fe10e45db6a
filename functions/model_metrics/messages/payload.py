"""An inference response, decoded where it can be: bytes are stored first and understood second."""

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


def unframed(value: bytes) -> bytes | None:
    """The message behind magic byte, schema id and message indexes; None where these are not there."""
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
    """A zigzag number at `at`, and where it ends."""
    number = 0
    for length, byte in enumerate(data[at : at + _MOST_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + length + 1
    return None


# What a database may refuse in JSON that a parser takes: characters, huge numbers, NaN and Infinity.
_UNUSUAL = re.compile(r"\\u|[eE][-+]?\d{4}|\d{4000}|NaN|Infinity")


_MOST_WHITE_SPACE = 64  # before a brace; a response has none


class ContentType(StrEnum):
    """How the response was written."""

    JSON = "json"
    PROTO = "proto"
    PROTO_WITH_SCHEMA = "proto+sr"
    """Behind what a schema registry's client puts before it."""
    UNKNOWN = "unknown"


class Decoded(NamedTuple):
    """`text` is JSON that every database takes; None where there is none."""

    content_type: ContentType
    text: str | None
    model_version: str | None = None
    """As the response says it."""


_UNKNOWN = Decoded(ContentType.UNKNOWN, None)


def decode(value: bytes) -> Decoded:
    """Never raises: what is neither JSON nor protobuf is unknown.

    No header is asked: no protobuf response begins with a brace, and none with a zero byte.
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
        stored = json_of(document) if _UNUSUAL.search(text) else text
        return Decoded(ContentType.JSON, stored, _version(document.get("model_version")))
    except (ValueError, RecursionError):
        return _UNKNOWN


def _of_protobuf(value: bytes, content_type: ContentType) -> Decoded:
    try:
        response = ModelInferResponse.FromString(value)
        if not (response.model_name or response.outputs):  # any few bytes may be a message of no known field
            return _UNKNOWN
        return Decoded(content_type, json_of(_document(response)), _version(response.model_version))
    except (DecodeError, ValueError):
        return _UNKNOWN


def _version(given: object) -> str | None:
    return given if isinstance(given, str) and given and is_storable(given) else None


def _document(response: ModelInferResponse) -> dict[str, Any]:
    """As the protocol's JSON has it. Raises ValueError where contents are not what their datatype says."""
    document: dict[str, Any] = {"model_name": response.model_name}
    for name in ("model_version", "id"):
        if given := getattr(response, name):
            document[name] = given
    if response.parameters:
        document["parameters"] = parameters_of(response.parameters)
    raw = response.raw_output_contents
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
