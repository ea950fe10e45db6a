"""Simulated models and the feedback of their users: pure, driven by one random generator."""

import json
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.functions.model_metrics.messages.inference_pb2 import ModelInferResponse

_PARTITIONS = 4  # in composite keys, as the gateway numbers them


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be produced."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """A model in a pipeline. `answer` returns its scores or number, and the true value."""

    name: str
    version: str
    pipeline: str
    answer: Callable[[random.Random], tuple[Sequence[float], Any]]
    kind: str
    write: Callable[["Served", str, Sequence[float]], bytes]

    def messages(
        self, chance: random.Random, prefix: str, feedback_topic: str, feedback_share: float
    ) -> list[Message]:
        """Return a response and, for a share of `feedback_share`, its feedback."""
        request_id = f"{chance.getrandbits(100):020x}"
        predicted, truth = self.answer(chance)
        # A composite key, as Core 2's gateway writes it.
        key = f"{chance.randrange(_PARTITIONS)}.{self.pipeline}.{request_id}".encode()
        headers = [("pipeline", self.pipeline.encode()), ("x-request-id", request_id.encode())]
        found = [Message(topic_of(self, prefix), key, self.write(self, request_id, predicted), headers)]
        if chance.random() < feedback_share:
            found.append(Message(feedback_topic, request_id.encode(), self._feedback(request_id, truth)))
        return found

    def _feedback(self, request_id: str, truth: Any) -> bytes:
        feedback: Mapping[str, Any] = {
            "namespace": "demo",
            "pipelineName": self.pipeline,
            "modelName": self.name,
            "requestId": request_id,
            "feedback": {f"{self.kind}Feedback": {"value": truth}},
        }
        return json.dumps(feedback).encode()


def topic_of(model: Served, prefix: str) -> str:
    """Return the topic of a model's outputs, as Core 2 names it."""
    return f"{prefix}.demo.model.{model.name}.outputs"


def as_json(model: Served, request_id: str, values: Sequence[float]) -> bytes:
    """Write a response as Core 2 does for REST requests."""
    output = {"name": "predict", "shape": [1, len(values)], "datatype": "FP64", "data": list(values)}
    # Core 2 appends a version to the name in a response; the topic has the name alone.
    document = {"id": request_id, "model_name": f"{model.name}_1", "model_version": model.version}
    return json.dumps({**document, "outputs": [output]}).encode()


def as_protobuf(model: Served, request_id: str, values: Sequence[float]) -> bytes:
    """Write a response as Core 2 does for gRPC requests, with raw contents."""
    response = ModelInferResponse(id=request_id, model_name=f"{model.name}_1", model_version=model.version)
    response.outputs.add(name="predict", datatype="FP64", shape=[1, len(values)])
    response.raw_output_contents.append(struct.pack(f"<{len(values)}d", *values))
    return bytes(response.SerializeToString())


def classifier(accuracy: float, classes: int = 3) -> Callable[[random.Random], tuple[list[float], int]]:
    """Simulate a classifier that is right with probability `accuracy` and mostly errs by one class."""

    def answer(chance: random.Random) -> tuple[list[float], int]:
        truth = chance.randrange(classes)
        predicted = truth if chance.random() < accuracy else (truth + chance.choice((1, 1, 2))) % classes
        scores = [chance.random() * (1 if place == predicted else 0.4) for place in range(classes)]
        # All others are below 1, so this is the highest score.
        scores[predicted] += 1
        total = sum(scores)
        return [score / total for score in scores], truth

    return answer


def regressor(error: float) -> Callable[[random.Random], tuple[list[float], float]]:
    """Simulate a regressor of numbers around 300 with normally distributed errors."""

    def answer(chance: random.Random) -> tuple[list[float], float]:
        truth = chance.lognormvariate(5.7, 0.3)
        return [round(truth + chance.gauss(0, error), 2)], round(truth, 2)

    return answer


# The two versions of iris differ in accuracy, for a comparison, and in encoding, so that both decoders run.
MODELS = (
    Served("iris", "1", "flowers", classifier(0.86), "classification", as_json),
    Served("iris", "2", "flowers", classifier(0.95), "classification", as_protobuf),
    Served("house-price", "1", "houses", regressor(25), "regression", as_protobuf),
)
