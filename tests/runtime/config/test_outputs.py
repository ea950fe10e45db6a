"""spec.outputs: what it may say, in which words it is refused, and that its secrets stay hidden."""

from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from function_files import load_changed, problems_of

from headrace.runtime.config.json_schema import function_schema
from headrace.runtime.config.reference import configuration_reference
from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.processor.worker_start import policy_of
from headrace.triggers.kafka.settings.model import KafkaOutputSettings

SASL = {"enable": True, "user": "u", "password": "hunter2", "mechanism": "SCRAM-SHA-512"}


def with_outputs(outputs: object) -> Any:
    return lambda document: document["spec"].update(outputs=outputs)


def problems_with(folder: Path, outputs: object) -> str:
    return problems_of(folder, with_outputs(outputs))


@pytest.mark.parametrize("kind", [{}, {"kind": "kafka-cluster"}, {"kind": "kafka"}])
def test_an_output_is_a_cluster_with_a_sign_in_of_its_own(tmp_path: Path, kind: dict[str, str]) -> None:
    function = load_changed(tmp_path, with_outputs({"archive": {**kind, "brokers": ["a:1"], "sasl": SASL}}))
    (output,) = function.outputs
    assert (output.name, output.kind) == ("archive", "kafka-cluster")
    assert isinstance(output.settings, KafkaOutputSettings)
    assert output.settings.access.addresses == "a:1"
    assert output.settings.access.client_options()["sasl_plain_password"] == "hunter2"
    assert "hunter2" not in repr(function)


def test_a_function_without_any_has_none(tmp_path: Path) -> None:
    assert load_changed(tmp_path, with_outputs({})).outputs == ()


def test_a_password_may_come_from_the_environment_and_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHIVE_PASSWORD", "hunter2")
    sasl = {**SASL, "password": "${ARCHIVE_PASSWORD}"}
    function = load_changed(tmp_path, with_outputs({"archive": {"brokers": ["a:1"], "sasl": sasl}}))
    assert function.outputs[0].settings.sasl.password == "hunter2"
    (shown,) = [it for it in function.settings if it.path == "spec.outputs.archive.sasl.password"]
    assert (shown.value, shown.origin, shown.key) == ("(set, not shown)", "environment", "ARCHIVE_PASSWORD")


def test_annotations_and_the_brokers_of_the_environment_are_the_triggers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BROKERS", "elsewhere:1")

    def change(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"]["nuclio.io/kafka-tls-enabled"] = "true"
        document["spec"]["outputs"] = {"archive": {"brokers": ["a:1"]}}

    function = load_changed(tmp_path, change)
    assert function.triggers[0].settings.uses_tls
    assert not function.outputs[0].settings.uses_tls
    assert function.outputs[0].settings.brokers == ("a:1",)


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        (["archive"], "spec.outputs: expected a mapping from each output's name to its fields"),
        ({"archive": None}, "spec.outputs.archive.brokers: is required: a list of at least one host:port"),
        ({"archive": {"brokers": []}}, "spec.outputs.archive.brokers: is required"),
        ({"archive": {"brokers": ["a b"]}}, "brokers: the list has 'a b', which is no broker address"),
        ({"Archive 1": {"brokers": ["a:1"]}}, "'Archive 1' is no name for an output; expected small letters"),
        ({"archive": {"brokers": ["a:1"], "sasll": {}}}, "sasll: unknown key; the nearest known key is sasl"),
        ({"archive": {"brokers": ["a:1"], "topics": ["t"]}}, "spec.outputs.archive.topics: unknown key"),
        (
            {"archive": {"kind": "http", "brokers": ["a:1"]}},
            "spec.outputs.archive.kind: kind http can't be an output; kafka-cluster can",
        ),
        (
            {"archive": {"brokers": ["a:1"], "sasl": {**SASL, "user": ""}}},
            "spec.outputs.archive.sasl.user: is required: sasl.enable is true and SCRAM-SHA-512 needs it",
        ),
        (
            {"archive": {"brokers": ["a:1"], "accessKey": "k"}},
            "accessKey: the value (not shown) is neither PEM text",
        ),
        (
            {"archive": {"brokers": ["a:1"], "sasl": {**SASL, "password": 1}}},
            "sasl.password: the value (not shown) is not a string",
        ),
        ({"archive": {"brokers": ["${NOT_SET_ANYWHERE}"]}}, "NOT_SET_ANYWHERE"),
    ],
)
def test_a_mistake_is_one_line_at_its_place(tmp_path: Path, outputs: object, says: str) -> None:
    line = problems_with(tmp_path, outputs)
    assert says in line
    assert "\n" not in line


def test_all_mistakes_are_said_at_once_each_with_its_line(tmp_path: Path) -> None:
    outputs = {"a": {"kind": "cron"}, "b": {"brokers": ["b:1"], "tls": {"enabel": True}}, "c": "a:1"}
    lines = problems_with(tmp_path, outputs).splitlines()
    assert len(lines) == 4
    assert all(line.split(":")[1].isdigit() for line in lines)


def test_a_mistake_shows_no_password(tmp_path: Path) -> None:
    outputs = {"archive": {"brokers": ["u:hunter2@a:1"], "sasl": {**SASL, "mechanism": "hunter2"[::-1]}}}
    assert "hunter2" not in problems_with(tmp_path, outputs)


def test_a_secret_may_be_a_file_of_the_functions_folder(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "word").write_text("hunter2")
    entry = {"secretPath": "secrets", "brokers": ["a:1"], "sasl": {**SASL, "password": "word"}}
    function = load_changed(tmp_path, with_outputs({"archive": entry}))
    assert function.outputs[0].settings.sasl.password == "hunter2"


def test_the_schema_knows_outputs() -> None:
    validate = fastjsonschema.compile(function_schema(installed_kinds()))
    spec: dict[str, Any] = {"handler": "main:handler", "outputs": {"archive": {"brokers": ["a:1"]}}}
    validate({"metadata": {"name": "f"}, "spec": spec})
    for wrong in ({"kind": "http", "brokers": ["a:1"]}, {}, {"brokers": ["a:1"], "topics": ["t"]}):
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            validate({"metadata": {"name": "f"}, "spec": {**spec, "outputs": {"archive": wrong}}})


def test_the_reference_names_no_annotation_of_an_output() -> None:
    _, _, after = configuration_reference(installed_kinds()).partition("## `spec.outputs.NAME`")
    part = after.partition("\n## ")[0]
    assert "| `sasl.password` | string |" in part
    assert "nuclio.io/" not in part


def with_topics(topics: object, result_topic: str = "") -> Any:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["outputs"] = {"archive": {"brokers": ["a:1"]}}
        document["spec"]["produceTopics"] = topics
        document["spec"]["triggers"]["t"]["attributes"]["resultTopic"] = result_topic

    return change


@pytest.mark.parametrize(
    ("listed", "places"),
    [([], set()), (["totals", "archive/totals"], {("", "totals"), ("archive", "totals")})],
)
def test_the_topics_that_are_listed_are_all_that_messages_may_go_to(
    tmp_path: Path, listed: list[str], places: set[tuple[str, str]]
) -> None:
    function = load_changed(tmp_path, with_topics(listed))
    assert policy_of(function, function.triggers[0]).produce_topics == frozenset(places)


def test_without_a_list_messages_may_go_anywhere(tmp_path: Path) -> None:
    function = load_changed(tmp_path, with_outputs({}))
    assert policy_of(function, function.triggers[0]).produce_topics is None


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        (None, "spec.produceTopics"),
        ("totals", "spec.produceTopics: 'totals' is not a list of strings"),
        (
            ["a b"],
            "spec.produceTopics: the list has 'a b', which is no topic; expected TOPIC, or OUTPUT/TOPIC",
        ),
        (["other/totals"], "spec.produceTopics[0]: spec.outputs has no 'other'"),
        (["archive/out"], "spec.produceTopics: doesn't have out, which a resultTopic is"),
    ],
)
def test_a_list_that_can_not_be_is_one_line(tmp_path: Path, listed: object, says: str) -> None:
    (line,) = problems_of(tmp_path, with_topics(listed, "out" if listed == ["archive/out"] else "")).split(
        "\n"
    )
    assert says in line
