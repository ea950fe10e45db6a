"""Responses are decoded where they can be, into JSON that every database takes; nothing makes it raise."""

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inference_responses import as_json, framed, joined, protobuf

from headrace.functions.model_metrics.messages.inference_pb2 import ModelInferResponse
from headrace.functions.model_metrics.messages.payload import ContentType, Decoded, decode

UNKNOWN = Decoded(ContentType.UNKNOWN, None)


def document(value: bytes) -> Any:
    return json.loads(decode(value).text or "null")


def response(datatype: str, raw: bytes | None = None, contents: dict[str, Any] | None = None) -> bytes:
    """Return a response with one output of that datatype."""
    message = ModelInferResponse(model_name="m")
    message.outputs.add(name="o", datatype=datatype, shape=[2], contents=contents or {})
    if raw is not None:
        message.raw_output_contents.append(raw)
    return bytes(message.SerializeToString())


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        (as_json(), "json"),
        (b"\r\n " + as_json(), "json"),
        (protobuf(), "proto"),
        (protobuf(is_raw=True), "proto"),
        (framed(protobuf()), "proto+sr"),
        (framed(protobuf(is_raw=True), 2**31, b"\x04\x00\x02"), "proto+sr"),
    ],
)
def test_each_way_of_writing_a_response_says_the_same(value: bytes, content_type: str) -> None:
    assert decode(value).content_type == content_type
    assert document(value) == json.loads(as_json())


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"garbage",
        b"\x00",
        b"\x00\x00\x00\x00\x07",
        b"\x00\x00\x00\x00\x07\x00",
        b"\x00\x00\x00\x00\x07" + b"\xff" * 20,
        b"{",
        b'{"outputs": [}',
        b'{"model_name": "\xff"}',
        b"[1, 2]",
        b'"text"',
        b"12",
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":' * 100_000,
        ModelInferResponse(id="no model, no outputs").SerializeToString(),
        response("FP32", b"\x00\x00\x80"),
        response("BYTES", b"\x05\x00\x00\x00ab"),
        response("BYTES", b"\x05\x00"),
        response("WHAT"),
        response("FP32", b"", {"fp32_contents": [1]})[:-1],
    ],
)
def test_what_is_no_response_is_unknown(value: bytes) -> None:
    assert decode(value) == UNKNOWN


@given(st.binary())
@example(b"\x00" * 30)
@example(b"\x0a\x01m")
def test_any_bytes_are_decoded_or_unknown(value: bytes) -> None:
    for written in (value, framed(value), b"{" + value):
        found = decode(written)
        assert found.text is None or isinstance(json.loads(found.text), dict)


@pytest.mark.parametrize(
    ("datatype", "field", "code", "values"),
    [
        ("BOOL", "bool_contents", "?", [True, False]),
        ("UINT8", "uint_contents", "B", [0, 255]),
        ("UINT16", "uint_contents", "H", [0, 65535]),
        ("UINT32", "uint_contents", "I", [0, 2**32 - 1]),
        ("UINT64", "uint64_contents", "Q", [0, 2**64 - 1]),
        ("INT8", "int_contents", "b", [-128, 127]),
        ("INT16", "int_contents", "h", [-32768, 32767]),
        ("INT32", "int_contents", "i", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", "q", [-(2**63), 2**63 - 1]),
        ("FP32", "fp32_contents", "f", [0.5, -2.25]),
        ("FP64", "fp64_contents", "d", [0.1, -1e300]),
    ],
)
def test_typed_and_raw_contents_are_the_same(
    datatype: str, field: str, code: str, values: list[float]
) -> None:
    raw = struct.pack(f"<2{code}", *values)
    assert document(response(datatype, None, {field: values}))["outputs"][0]["data"] == values
    assert document(response(datatype, raw))["outputs"][0]["data"] == values


def test_halves_are_raw() -> None:
    assert document(response("FP16", struct.pack("<2e", 0.5, -2)))["outputs"][0]["data"] == [0.5, -2]


def test_bytes_are_text_where_they_can_be() -> None:
    elements = [b"setosa", b"\xff\x00", b""]
    expected = ["setosa", {"base64": base64.b64encode(b"\xff\x00").decode()}, ""]
    assert document(response("BYTES", joined(*elements)))["outputs"][0]["data"] == expected
    assert document(response("BYTES", None, {"bytes_contents": elements}))["outputs"][0]["data"] == expected


def test_parameters_keep_their_kinds() -> None:
    message = ModelInferResponse(model_name="m")
    message.parameters["a"].bool_param = False
    message.parameters["b"].int64_param = -5
    message.parameters["c"].string_param = "x"
    message.parameters["d"].double_param = 0.5
    message.parameters["e"].uint64_param = 2**63
    message.parameters["none"].SetInParent()
    output = message.outputs.add(name="o", datatype="BOOL")
    output.parameters["content_type"].string_param = "np"
    found = document(message.SerializeToString())
    assert found["parameters"] == {"a": False, "b": -5, "c": "x", "d": 0.5, "e": 2**63, "none": None}
    assert found["outputs"][0]["parameters"] == {"content_type": "np"}


def test_numbers_that_json_lacks_are_spelled() -> None:
    spelled = ["NaN", "Infinity", "-Infinity", 1.5]
    assert document(protobuf([math.nan, math.inf, -math.inf, 1.5]))["outputs"][0]["data"] == spelled
    written = b'{"data": [NaN, Infinity, -Infinity, 1.5], "big": 1e99999, "word": "NaN"}'
    assert document(written) == {"data": spelled, "big": "Infinity", "word": "NaN"}


@pytest.mark.parametrize(
    "value",
    [
        rb'{"a": "\u0000"}',
        rb'{"\u0000": 1}',
        rb'{"a": [{"b": "\ud800"}]}',
        response("BYTES", joined(b"a\x00b")),
        protobuf(name="iris\x00"),
    ],
)
def test_text_that_no_database_holds_has_no_json(value: bytes) -> None:
    found = decode(value)
    assert found.content_type != ContentType.UNKNOWN
    assert found.text is None


@pytest.mark.parametrize("text", [r'{"a": "\ud83d\ude00"}', r'{"a": "\\u0000"}', '{"a": "\U0001f600é"}'])
def test_other_text_is_kept(text: str) -> None:
    assert document(text.encode()) == json.loads(text)


@pytest.mark.parametrize("value", [as_json(), protobuf(), framed(protobuf())])
def test_the_version_is_what_the_response_says(value: bytes) -> None:
    assert decode(value).model_version == "1"


@pytest.mark.parametrize("version", [2, None, "", "\0", ["1"]])
def test_another_thing_is_no_version(version: Any) -> None:
    assert decode(as_json(model_version=version)).model_version is None


def test_json_is_kept_as_it_was_written() -> None:
    text = '{"outputs": [{"data": [0.10000000000000000001, 1e2]}],  "a": 1, "a": 2}'
    assert decode(text.encode()).text == text
