"""Models that answer and users that say later what was true: pure, from one random generator."""

import json
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.functions.model_metrics.messages.inference_pb2 import ModelInferResponse

_PARTITIONS = 4  # of a composite key, as the gateway's


@dataclass(frozen=True, slots=True)
class Message:
    """What goes to a topic."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """A model of a pipeline. `answer` gives the scores or the number that it says, and what was true."""

    name: str
    version: str
    pipeline: str
    answer: Callable[[random.Random], tuple[Sequence[float], Any]]
    kind: str
    write: Callable[["Served", str, Sequence[float]], bytes]

    def messages(
        self, chance: random.Random, prefix: str, feedback_topic: str, feedback_share: float
    ) -> list[Message]:
        """A response, and often its feedback."""
        request_id = f"{chance.getrandbits(100):020x}"
        said, truth = self.answer(chance)
        key = f"{chance.randrange(_PARTITIONS)}.{self.pipeline}.{request_id}".encode()
        headers = [("pipeline", self.pipeline.encode()), ("x-request-id", request_id.encode())]
        found = [Message(topic_of(self, prefix), key, self.write(self, request_id, said), headers)]
        if chance.random() < feedback_share:
            found.append(Message(feedback_topic, request_id.encode(), self._feedback(request_id, truth)))
        return found

    def _feedback(self, request_id: str, truth: Any) -> bytes:
        said: Mapping[str, Any] = {
            "namespace": "demo",
            "pipelineName": self.pipeline,
            "modelName": self.name,
            "requestId": request_id,
            "feedback": {f"{self.kind}Feedback": {"value": truth}},
        }
        return json.dumps(said).encode()


def topic_of(model: Served, prefix: str) -> str:
    """As Core 2 names it."""
    return f"{prefix}.demo.model.{model.name}.outputs"


def as_json(model: Served, request_id: str, values: Sequence[float]) -> bytes:
    """On the way of REST."""
    output = {"name": "predict", "shape": [1, len(values)], "datatype": "FP64", "data": list(values)}
    said = {"id": request_id, "model_name": f"{model.name}_1", "model_version": model.version}
    return json.dumps({**said, "outputs": [output]}).encode()


def as_protobuf(model: Served, request_id: str, values: Sequence[float]) -> bytes:
    """On the way of gRPC, with raw contents."""
    said = ModelInferResponse(id=request_id, model_name=f"{model.name}_1", model_version=model.version)
    said.outputs.add(name="predict", datatype="FP64", shape=[1, len(values)])
    said.raw_output_contents.append(struct.pack(f"<{len(values)}d", *values))
    return bytes(said.SerializeToString())


def classifier(accuracy: float, classes: int = 3) -> Callable[[random.Random], tuple[list[float], int]]:
    """Right that often; it takes neighbours for each other, as models do."""

    def answer(chance: random.Random) -> tuple[list[float], int]:
        truth = chance.randrange(classes)
        said = truth if chance.random() < accuracy else (truth + chance.choice((1, 1, 2))) % classes
        scores = [chance.random() * (1 if place == said else 0.4) for place in range(classes)]
        scores[said] += 1
        total = sum(scores)
        return [score / total for score in scores], truth

    return answer


def regressor(error: float) -> Callable[[random.Random], tuple[list[float], float]]:
    """A number around 300, and what it should have been."""

    def answer(chance: random.Random) -> tuple[list[float], float]:
        truth = chance.lognormvariate(5.7, 0.3)
        return [round(truth + chance.gauss(0, error), 2)], round(truth, 2)

    return answer


MODELS = (
    Served("iris", "1", "flowers", classifier(0.86), "classification", as_json),
    Served("iris", "2", "flowers", classifier(0.95), "classification", as_protobuf),
    Served("house-price", "1", "houses", regressor(25), "regression", as_protobuf),
)
