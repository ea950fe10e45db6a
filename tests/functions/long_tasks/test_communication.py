"""Requests and responses: the generated classes are those of the schema, and mean what their bytes say."""

import subprocess
import sys
from pathlib import Path

import pytest
import second_decoder
from hypothesis import given
from hypothesis import strategies as st
from root import ROOT

from headrace.functions.long_tasks.communication_pb2 import Request, Response

FOLDER = ROOT / "functions/long_tasks"
int32 = st.integers(-(2**31), 2**31 - 1)


def test_the_generated_classes_are_up_to_date(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{FOLDER}", "communication.proto"]
    subprocess.run([*command, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"], check=True, cwd=tmp_path)
    for made in tmp_path.iterdir():
        assert (FOLDER / made.name).read_text() == made.read_text(), "make generate"
    assert len(list(tmp_path.iterdir())) == 2


@given(int32, st.text())
def test_a_request_is_what_a_second_decoder_reads(sequence: int, payload: str) -> None:
    data = Request(sequence=sequence, payload=payload).SerializeToString()
    assert second_decoder.request(data) == (sequence, payload)


@given(int32, st.booleans())
def test_a_response_is_what_a_second_decoder_reads(sequence: int, is_processed: bool) -> None:
    data = Response(sequence=sequence, isprocessed=is_processed).SerializeToString()
    assert second_decoder.response(data) == (sequence, is_processed)


@pytest.mark.parametrize(
    ("sequence", "is_processed", "data"),
    [
        (0, False, b""),
        (1, False, b"\x08\x01"),
        (0, True, b"\x10\x01"),
        (300, True, b"\x08\xac\x02\x10\x01"),
        (-1, True, b"\x08" + b"\xff" * 9 + b"\x01\x10\x01"),
    ],
)
def test_the_bytes_are_those_of_the_specification(sequence: int, is_processed: bool, data: bytes) -> None:
    response = Response(sequence=sequence, isprocessed=is_processed)
    assert response.SerializeToString() == data
    assert Response.FromString(data) == response
    assert second_decoder.response(data) == (sequence, is_processed)
