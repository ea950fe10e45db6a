"""Values of a tensor in protobuf, whether it carries them as typed contents or as raw bytes."""

import base64
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.functions.model_metrics.messages.inference_pb2 import InferTensorContents

_CONTENTS: Mapping[str, str] = {
    "BOOL": "bool_contents",
    # Protobuf has no integers of fewer than 32 bits, so the small ones share a field.
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Field of InferTensorContents by datatype. FP16 has none: it is always raw."""
_RAW: Mapping[str, str] = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
"""Format character of the `struct` module by datatype."""
_LENGTH = struct.Struct("<I")


def typed_data(datatype: str, contents: InferTensorContents) -> list[Any]:
    """Return the values of typed contents: bool, int, float, or `text_of` each for BYTES.

    Raises ValueError for an unknown datatype.
    """
    if (field := _CONTENTS.get(datatype)) is None:
        raise ValueError(f"{datatype} has no typed contents")
    values = getattr(contents, field)
    return list(map(text_of, values)) if datatype == "BYTES" else list(values)


def raw_data(datatype: str, raw: bytes) -> list[Any]:
    """Return the values in raw contents, which are little-endian and in row-major order.

    Raises ValueError for an unknown datatype, and for bytes that aren't whole values of it.
    """
    if datatype == "BYTES":
        return list(map(text_of, _split(raw)))
    if (code := _RAW.get(datatype)) is None:
        raise ValueError(f"{datatype} is no datatype")
    # "<" is little-endian without padding, as the protocol has it.
    count, rest = divmod(len(raw), struct.calcsize(f"<{code}"))
    if rest:
        raise ValueError(f"{len(raw)} bytes are no {datatype}s")
    return list(struct.unpack(f"<{count}{code}", raw))


def text_of(data: bytes) -> Any:
    """Return bytes as str if they are UTF-8, else as {"base64": ...}: JSON has no bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def parameters_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return each parameter's value by name: bool, int, float or str; None where it has none."""
    # Protobuf's maps have no order: sorted, the same response gives the same JSON.
    return {name: _choice(value) for name, value in sorted(parameters.items())}


def _choice(parameter: Any) -> Any:
    field = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, field) if field else None


def _split(raw: bytes) -> Iterator[bytes]:
    """Yield the elements of BYTES, each of which has its length before it, four bytes."""
    at = 0
    while at < len(raw):
        # Checked before it is read: unpack_from raises struct.error, which is no ValueError.
        if at + _LENGTH.size > len(raw):
            raise ValueError("a length is cut off")
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        # A slice that reaches beyond the end is shorter, without an error.
        if at + length > len(raw):
            raise ValueError("an element is cut off")
        yield raw[at : at + length]
        at += length
