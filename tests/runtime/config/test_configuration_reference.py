"""What is published from the declarations: the schema and the reference are as the declarations are now."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
import yaml
from function_files import FULL, SPECS, VALID, Change
from root import ROOT

from headrace.runtime.config.json_schema import function_schema
from headrace.runtime.config.reference import configuration_reference
from headrace.runtime.config.spark import SparkFields
from headrace.runtime.config.trigger_kinds import installed_kinds, trigger_fields
from headrace.runtime.settings.declare import Settings, settings_of
from headrace.triggers.kafka.settings.model import KafkaSettings

MODELS: tuple[type[Settings], ...] = (
    trigger_fields(installed_kinds().values()),
    KafkaSettings,
    SparkFields,
)
EXAMPLES = [
    *SPECS.glob("*.yaml"),
    *ROOT.glob("examples/*/function.yaml"),
    *ROOT.glob("functions/*/function.yaml"),
]


@pytest.fixture(scope="session")
def accepts() -> Callable[[object], bool]:
    """Whether the schema accepts a document."""
    validate = fastjsonschema.compile(function_schema(installed_kinds()))

    def is_accepted(document: object) -> bool:
        try:
            validate(document)
        except fastjsonschema.JsonSchemaException:
            return False
        return True

    return is_accepted


@pytest.mark.parametrize("model", MODELS)
def test_the_reference_has_every_key_and_every_annotation(model: type[Settings]) -> None:
    text = configuration_reference(installed_kinds())
    for declared in settings_of(model):
        keys = (".".join(declared.keys), *declared.setting.annotation_keys())
        assert f"\n| {'<br>'.join(f'`{key}`' for key in keys)} |" in text


@pytest.mark.parametrize("model", MODELS)
def test_every_rule_says_what_it_is(model: type[Settings]) -> None:
    for rule in model.rules:
        assert (rule.check.__doc__ or "").endswith("."), rule.check


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_schema_accepts_what_is_published(accepts: Callable[[object], bool], file: Path) -> None:
    assert accepts(yaml.safe_load(file.read_text()))


def _attributes(change: Change) -> Change:
    return lambda d: change(d["spec"]["triggers"]["t"]["attributes"])


def _attribute(key: str, value: object) -> Change:
    return _attributes(lambda attributes: attributes.update({key: value}))


def _trigger(key: str, value: object) -> Change:
    return lambda d: d["spec"]["triggers"]["t"].update({key: value})


def _annotation(key: str, value: object) -> Change:
    return lambda d: d["metadata"]["annotations"].update({key: value})


def _spec(key: str, value: object) -> Change:
    return lambda d: d["spec"].update({key: value})


def _accepts_changed(accepts: Callable[[object], bool], change: Change) -> bool:
    document: dict[str, Any] = copy.deepcopy(VALID)
    change(document)
    return accepts(document)


@pytest.mark.parametrize(
    "change",
    [
        _attribute("sessionTimeout", "1h30m"),
        _attribute("sessionTimeout", ""),
        _attribute("ackWindowSize", "5"),
        _attribute("sessionTimeout", "${SESSION_TIMEOUT:-10s}"),
        _trigger("numWorkers", "${WORKERS}"),
        _attributes(lambda a: a.update(topicPattern=a.pop("topics")[0])),
        _annotation("nuclio.io/kafka-session-timeout", "10s"),
        _annotation("my.own/key", "free"),
        _spec("replicas", 3),
        _spec("env", [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"secretKeyRef": {}}}]),
        _spec("resources", {"limits": {"memory": "512Mi", "nvidia.com/gpu": 1}}),
        _spec("build", {"commands": ["pip install x"]}),
        _spec("spark", {}),
    ],
)
def test_the_schema_accepts_what_is_valid(accepts: Callable[[object], bool], change: Change) -> None:
    assert _accepts_changed(accepts, change)


@pytest.mark.parametrize(
    "change",
    [
        _attribute("sessionTimout", "10s"),
        _attribute("sessionTimeout", "10 seconds"),
        _attribute("sessionTimeout", 10),
        _attribute("channelBufferSize", 300),
        _attribute("fetchMin", "5"),
        _attribute("initialOffset", "first"),
        _attribute("balanceStrategy", "cooperative"),
        _attribute("tls", {"enabled": True}),
        _trigger("kind", "kafka-clutser"),
        _trigger("numWorkerz", 1),
        _annotation("nuclio.io/kafka-fetchmin", "1"),
        _annotation("nuclio.io/kafka-fetch-min", 1),
        _spec("handlr", "main:handler"),
        _spec("env", [{"value": "b"}]),
        _spec("build", {"comands": []}),
        _spec("spark", {"conf": {"spark.x": 1}}),
        _spec("resources", {"limits": {"memoy": "512Mi"}}),
        _attributes(lambda a: a.pop("topics")),
        lambda d: d["spec"].pop("handler"),
        lambda d: d.update(apiVersion="v1"),
    ],
)
def test_the_schema_refuses_what_is_a_mistake(accepts: Callable[[object], bool], change: Change) -> None:
    assert not _accepts_changed(accepts, change)


def test_an_editor_finds_default_description_and_annotation_of_an_attribute() -> None:
    schema = json.loads((SPECS / "function.schema.json").read_text())
    trigger = schema["properties"]["spec"]["properties"]["triggers"]["additionalProperties"]
    (kafka,) = (it for it in trigger["allOf"] if "kafka" in it["if"]["properties"]["kind"]["enum"])
    timeout = kafka["then"]["properties"]["attributes"]["properties"]["sessionTimeout"]
    assert timeout["default"] == FULL["spec"]["triggers"]["orders"]["attributes"]["sessionTimeout"]
    assert timeout["annotation"] == "nuclio.io/kafka-session-timeout"
    assert timeout["description"].startswith("Too low ends sessions")
