"""What counts as given in a function.yaml, and as what: scalars for text, and nothing below a key."""

from pathlib import Path
from typing import Any

import pytest
from function_files import load_changed, load_text, problems_of

from headrace.runtime.settings.written_values import text_of_scalar


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("12", "12"),
        ("-3", "-3"),
        ("010", "8"),  # YAML's octal number, as Kubernetes reads it
        ("1.5", "1.5"),
        ("3.0", "3"),
        ("1000000.0", "1e+06"),
        ("false", "false"),
        ("yes", "true"),
        ("", ""),
        ("'12'", "12"),
        ("2020-01-01", "2020-01-01"),
    ],
)
def test_a_scalar_in_env_becomes_the_text_that_kubernetes_makes_of_it(
    tmp_path: Path, written: str, text: str
) -> None:
    function = load_text(tmp_path, _with_env(f"{{name: LIMIT, value: {written}}}"))
    assert (function.env, function.notices) == ({"LIMIT": text}, ())


@pytest.mark.parametrize("written", ["[1]", "{a: 1}"])
def test_a_collection_is_no_value_of_a_variable(tmp_path: Path, written: str) -> None:
    with pytest.raises(Exception, match=r"spec\.env\[0\]\.value: expected text, a number, true or false"):
        load_text(tmp_path, _with_env(f"{{name: LIMIT, value: {written}}}"))


def _with_env(entry: str) -> str:
    return f"""\
            metadata: {{name: f}}
            spec:
              handler: main:handler
              env:
                - {entry}
              triggers:
                t: {{kind: kafka, attributes: {{topics: [a], brokers: [b:9092], consumerGroup: g}}}}
            """


@pytest.mark.parametrize(
    ("value", "text"), [(0.00001, "1e-05"), (123456.5, "123456.5"), (1234567.5, "1.2345675e+06"), (0.0, "0")]
)
def test_a_number_is_written_as_go_writes_it(value: float, text: str) -> None:
    assert text_of_scalar(value) == text


def test_annotations_need_no_quotes(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"] = {
            "nuclio.io/kafka-fetch-min": 10,
            "nuclio.io/kafka-tls-enabled": True,
            "my.own/annotation": 1.5,
            "my.own/other": None,
        }

    (trigger,) = load_changed(tmp_path, change).triggers
    assert (trigger.settings.fetch_min_bytes, trigger.settings.tls.enable) == (10, True)


def test_texts_of_metadata_spec_and_trigger_need_no_quotes_either(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["metadata"] |= {"name": 2024, "namespace": 7}
        document["spec"]["triggers"]["t"]["url"] = 9092

    function = load_changed(tmp_path, change)
    assert (function.name, function.namespace) == ("2024", "7")


def test_attributes_need_their_quotes_as_in_nuclio(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["attributes"]["consumerGroup"] = 5

    assert "consumerGroup: 5 is not a string; expected text, in quotes" in problems_of(tmp_path, change)


def test_nothing_below_a_key_is_as_if_the_key_was_not_there(tmp_path: Path) -> None:
    function = load_text(
        tmp_path,
        """\
            apiVersion:
            metadata:
              name: f
              labels:
              annotations:
            spec:
              handler: main:handler
              runtime: ''
              env:
              build:
              resources:
                limits:
              triggers:
                t:
                  kind: kafka
                  batch:
                  attributes:
                    topics: [a]
                    brokers: [b:9092]
                    consumerGroup: g
                    partitions:
                    sasl:
                    tls:
            """,
    )
    (notice,) = function.notices
    assert notice == f"{tmp_path}/function.yaml:1: apiVersion: nothing is written; the default counts"


@pytest.mark.parametrize("empty", ["", "{}"])
def test_a_function_whose_triggers_are_empty_never_gets_an_event(tmp_path: Path, empty: str) -> None:
    text = f"metadata: {{name: f}}\nspec:\n  handler: main:handler\n  triggers: {empty}\n"
    with pytest.raises(Exception, match="no trigger is enabled"):
        load_text(tmp_path, text)


def test_an_empty_metadata_is_none(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["metadata"] = None

    folder = tmp_path / "orders"
    folder.mkdir()
    assert load_changed(folder, change).name == "orders"


def test_an_empty_setting_is_noticed(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["attributes"]["sessionTimeout"] = None

    function = load_changed(tmp_path, change)
    assert function.triggers[0].settings.session_timeout_seconds == 10
    (notice,) = function.notices
    assert notice.endswith("attributes.sessionTimeout: nothing is written; the default counts")


def test_a_number_of_partitions_reads_all_of_them_and_is_noticed(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["attributes"]["partitions"] = 4

    function = load_changed(tmp_path, change)
    assert function.triggers[0].settings.partitions == ()
    (notice,) = function.notices
    assert notice.endswith(
        "attributes.partitions: has no effect here: a number is no list of partitions, so all are read;"
        " write [4] for that one alone"
    )
