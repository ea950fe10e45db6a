"""Functions for `headrace validate`: a valid one, and one mistake each."""

from collections.abc import Callable
from pathlib import Path

HANDLER = "def handler(context, event): ...\n"
FUNCTION = """\
apiVersion: nuclio.io/v1
kind: NuclioFunction
metadata:
  name: orders
  annotations:
    my.own/key: free
spec:
  handler: main:handler
  triggers:
    t:
      kind: kafka-cluster
      attributes:
        topics: [orders]
        brokers: ["127.0.0.1:1"]
        consumerGroup: g
        sasl: {enable: true, user: u, password: hunter2}
"""
AT = "spec.triggers.t.attributes"
NEXT_TO = "        topics: [orders]\n"


def attribute(line: str) -> Callable[[str], str]:
    """The function with one more attribute, on line 13."""
    return lambda text: text.replace(NEXT_TO, f"        {line}\n{NEXT_TO}")


def changed(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


MISTAKES: dict[str, tuple[Callable[[str], str], str]] = {
    "unknown-attribute": (
        attribute("sessionTimout: 10s"),
        f":13: {AT}.sessionTimout: unknown key; the nearest known key is sessionTimeout",
    ),
    "unknown-annotation": (
        changed("my.own/key: free", "nuclio.io/kafka-fetchmin: '1'"),
        (
            ":6: metadata.annotations.nuclio.io/kafka-fetchmin: unknown annotation;"
            " the nearest known one is nuclio.io/kafka-fetch-min"
        ),
    ),
    "wrong-type": (
        attribute('fetchMin: "5"'),
        f":13: {AT}.fetchMin: '5' is not an int; expected a whole number, without quotes",
    ),
    "bad-duration": (
        attribute("sessionTimeout: 10 seconds"),
        f":13: {AT}.sessionTimeout: '10 seconds' is not a duration; expected something like 10s or 1m30s",
    ),
    "buffer-300": (
        attribute("channelBufferSize: 300"),
        f":13: {AT}.channelBufferSize: 300 is out of range; expected at most 256",
    ),
    "heartbeat-above-session": (
        attribute("heartbeatInterval: 11s"),
        f":13: {AT}.heartbeatInterval: 11s must be below sessionTimeout, 10s",
    ),
    "rebalance-below-wait": (
        attribute("rebalanceTimeout: 4s"),
        (
            f":13: {AT}.rebalanceTimeout: 4s must be above maxWaitHandlerDuringRebalance plus"
            " waitExplicitAckDuringRebalanceTimeout, 5.1s together"
        ),
    ),
    "explicit-ack-with-pool": (
        changed(
            "kind: kafka-cluster", "kind: kafka-cluster\n      maxWorkers: 2\n      explicitAckMode: enable"
        ),
        f":14: {AT}.workerAllocationMode: must be static with explicitAckMode enable",
    ),
    "unknown-kind": (
        changed("kafka-cluster", "kafka-clutser"),
        (
            ":11: spec.triggers.t.kind: 'kafka-clutser' is no trigger kind;"
            " the nearest known kind is kafka-cluster"
        ),
    ),
    "not-built": (
        attribute("balanceStrategy: cooperative"),
        (
            f":13: {AT}.balanceStrategy: 'cooperative' is known, but not built into this version of Headrace"
            " yet; built: range, roundrobin, sticky"
        ),
    ),
    "missing-module": (
        changed("main:handler", "mian:handler"),
        ":8: spec.handler: no module 'mian' in FOLDER",
    ),
    "missing-handler": (
        changed("main:handler", "main:handle"),
        ":8: spec.handler: 'main' has no function 'handle'; it has handler",
    ),
    "tabs": (
        attribute("\tfetchMin: 1"),
        ":13: not YAML: tabs cannot indent; use spaces (column 9)",
    ),
    "bad-yaml": (
        attribute("fetchMin: 1: 2"),
        ":13: not YAML: mapping values are not allowed in this context (column 20)",
    ),
    "huge-number": (
        attribute(f"fetchMin: 0x{'f' * 10_000}"),
        f":13: {AT}.fetchMin: '0x{'f' * 57}... is not an int; expected a whole number, without quotes",
    ),
    "no-name-for-kubernetes": (
        changed("name: orders", "name: Orders_1"),
        (
            ":4: metadata.name: 'Orders_1' is no name for a function;"
            " expected small letters, digits and dashes, at most 63"
        ),
    ),
    "python's-own-module": (
        changed("main:handler", "json:handler"),
        (
            ":8: spec.handler: FOLDER/json.py has the name of a module of Python's own, which everything"
            " else that imports it expects; rename the file"
        ),
    ),
    "key-with-a-line-break": (
        attribute(r'"fetch\nMin": 1'),
        rf":13: {AT}.fetch\nMin: unknown key; the nearest known key is fetchMin",
    ),
}


def write(folder: Path, text: str, handler: str = HANDLER) -> Path:
    folder.mkdir()
    (folder / "main.py").write_text(handler)
    (folder / "json.py").write_text(handler)
    (folder / "function.yaml").write_text(text)
    return folder
