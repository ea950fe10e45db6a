"""The generated classes are those of the schema, and the schema numbers its fields as the protocol does."""

import subprocess
import sys
from pathlib import Path

from root import ROOT

from headrace.functions.model_metrics.messages.inference_pb2 import InferTensorContents, ModelInferResponse

NAME = "model_metrics/messages/inference.proto"


def test_the_generated_classes_are_up_to_date(tmp_path: Path) -> None:
    folder = ROOT / "functions"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", NAME]
    subprocess.run([*command, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"], check=True, cwd=tmp_path)
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in made:
        assert (folder / path.relative_to(tmp_path)).read_text() == path.read_text(), "make generate"
    assert len(made) == 2


def test_the_bytes_are_those_of_the_protocol() -> None:
    """Written down by hand, field by field, as Core 2's v2_dataplane.proto numbers them."""
    output = b"\x0a\x01o\x12\x04FP32\x1a\x02\x01\x02\x2a\x0a" + b"\x32\x08\x00\x00\x00\x3f\x00\x00\x80\x3f"
    data = b"\x0a\x01m\x12\x01v\x1a\x01i\x2a" + bytes([len(output)]) + output + b"\x32\x02\xab\xcd"
    response = ModelInferResponse(model_name="m", model_version="v", id="i")
    response.raw_output_contents.append(b"\xab\xcd")
    contents = InferTensorContents(fp32_contents=[0.5, 1.0])
    response.outputs.add(name="o", datatype="FP32", shape=[1, 2], contents=contents)
    assert response.SerializeToString() == data
    assert ModelInferResponse.FromString(data) == response
