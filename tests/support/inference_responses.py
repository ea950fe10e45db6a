"""Responses as Core 2 writes them: protobuf with typed or raw contents, framed or not, and JSON."""

import json
import struct
from collections.abc import Sequence
from typing import Any

from headrace.functions.model_metrics.messages.inference_pb2 import ModelInferResponse


def protobuf(values: Sequence[float] = (0.25, 0.75), *, name: str = "iris_1", is_raw: bool = False) -> bytes:
    """One output of FP32s."""
    response = ModelInferResponse(model_name=name, model_version="1", id="an-id")
    output = response.outputs.add(name="predict", datatype="FP32", shape=[1, len(values)])
    if is_raw:
        response.raw_output_contents.append(struct.pack(f"<{len(values)}f", *values))
    else:
        output.contents.fp32_contents.extend(values)
    return bytes(response.SerializeToString())


def joined(*elements: bytes) -> bytes:
    """BYTES as raw contents: each with its length before it."""
    return b"".join(len(element).to_bytes(4, "little") + element for element in elements)


def framed(message: bytes, schema_id: int = 7, indexes: bytes = b"\x00") -> bytes:
    """As a schema registry's client writes it: the index list [0] is one zero byte."""
    return b"\x00" + schema_id.to_bytes(4, "big") + indexes + message


def as_json(values: Sequence[float] = (0.25, 0.75), **more: Any) -> bytes:
    """The same response."""
    output = {"name": "predict", "shape": [1, len(values)], "datatype": "FP32", "data": list(values)}
    return json.dumps(
        {"model_name": "iris_1", "model_version": "1", "id": "an-id", "outputs": [output], **more}
    ).encode()
