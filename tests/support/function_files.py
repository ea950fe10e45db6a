"""Function files for tests: a valid one, and what loading a changed one gives."""

import copy
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from root import ROOT

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.trigger_kinds import TriggerKind
from headrace.runtime.errors import ConfigError
from headrace.triggers.kafka.kind import KAFKA

SPECS = ROOT / "specs"
FULL: dict[str, Any] = yaml.safe_load((SPECS / "kafka-full.yaml").read_text())
VALID: dict[str, Any] = {
    "apiVersion": "nuclio.io/v1",
    "kind": "NuclioFunction",
    "metadata": {"name": "orders", "annotations": {}},
    "spec": {
        "handler": "main:handler",
        "triggers": {
            "t": {
                "kind": "kafka-cluster",
                "attributes": {"topics": ["a"], "brokers": ["b:9092"], "consumerGroup": "g"},
            }
        },
    },
}

# The configuration example of Nuclio's page on the Kafka trigger.
NUCLIOS_EXAMPLE: dict[str, Any] = yaml.safe_load("""
triggers:
  myKafkaTrigger:
    kind: kafka-cluster
    attributes:
      initialOffset: earliest
      topics:
        - mytopic
      brokers:
        - 10.0.0.2:9092
      consumerGroup: my-consumer-group
      sasl:
        enable: true
        user: "nuclio"
        password: "s3rv3rl3ss"
        handshake: true
        mechanism: SCRAM-SHA-256
      tls:
        enable: true
        insecureSkipVerify: true
""")


KINDS: dict[str, TriggerKind] = {"kafka-cluster": KAFKA}
Change = Callable[[dict[str, Any]], object]


def load_text(folder: Path, text: str) -> FunctionSpec:
    (folder / "function.yaml").write_text(textwrap.dedent(text), encoding="utf-8", errors="surrogatepass")
    return load_function(folder, KINDS)


def load_changed(folder: Path, change: Change) -> FunctionSpec:
    document = copy.deepcopy(VALID)
    change(document)
    return load_text(folder, yaml.safe_dump(document, sort_keys=False))


def problems_of(folder: Path, change: Change) -> str:
    with pytest.raises(ConfigError) as raised:
        load_changed(folder, change)
    return str(raised.value)
