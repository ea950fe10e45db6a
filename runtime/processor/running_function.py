"""A function at work, as far as its triggers share it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.runtime.dispatch.interface import Output
from headrace.runtime.processor.trigger_classes import output_kind
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.users import OURS, ProcessUser


@dataclass(frozen=True, slots=True)
class RunningFunction:
    """One of a replica. `outputs`, by name, connect by themselves; `close` is for when no trigger runs."""

    spec: FunctionSpec
    replica: str = ""
    spark: SparkLink | None = None
    user: ProcessUser = OURS
    router: AckRouter = field(default_factory=AckRouter)
    outputs: Mapping[str, Output] = field(init=False)

    def __post_init__(self) -> None:
        """Raises ContractError."""
        outputs = {
            it.name: output_kind(it.kind).open_output(it.settings, self.client_id(it.name))
            for it in self.spec.outputs
        }
        object.__setattr__(self, "outputs", outputs)  # it is frozen

    def client_id(self, name: str) -> str:
        """What a trigger, or an output, of that name calls this replica."""
        return f"headrace-{self.spec.name}-{name}-{self.replica or os.getpid()}"

    def problems(self) -> list[str]:
        """Why something can't be sent on."""
        return [
            f"output {name} of {self.spec.name}: {problem}"
            for name, output in self.outputs.items()
            for problem in output.problems()
        ]

    async def close(self) -> None:
        """Its outputs. Idempotent."""
        for output in self.outputs.values():
            await output.close()
