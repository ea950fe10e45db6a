"""What a Kafka trigger's file may say without effect, and keys that were meant otherwise."""

from pathlib import Path
from typing import Any

import pytest
from function_files import problems_of
from kafka_settings import loaded, nested, notices_of, problems_with


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("balanceStrategy", "cooperative")],
)
def test_a_value_that_is_not_built_is_refused(tmp_path: Path, attribute: str, value: object) -> None:
    text = problems_with(tmp_path, nested(attribute, value))
    assert f"attributes.{attribute}: {value!r} is known, but not built into this version" in text


def test_what_has_no_effect_is_noticed(tmp_path: Path) -> None:
    notices = notices_of(
        tmp_path, {"version": "2.0.0", "logLevel": 6, "sasl": {"user": "u"}}, username="u", password="p"
    )
    assert "attributes.version: has no effect here" in notices
    assert "attributes.logLevel: has no effect here" in notices
    assert "sasl.enable: a user or a password is given" in notices
    assert "username, password and secret have no effect with Kafka" in notices


@pytest.mark.parametrize("key", ["metadata-retry-max", "admin-retry-max", "net-dial-timeout"])
def test_what_only_nuclios_client_has_is_noticed_in_an_annotation_too(tmp_path: Path, key: str) -> None:
    value = "5s" if key.endswith("timeout") else "5"
    notices = notices_of(tmp_path, annotations={f"nuclio.io/kafka-{key}": value})
    assert f"annotations.nuclio.io/kafka-{key}: has no effect here: " in notices


def test_what_mlrun_leaves_beside_the_attributes_is_noticed_and_changes_nothing(tmp_path: Path) -> None:
    twins = {
        "explicit_ack_mode": "explicitOnly",
        "worker_allocation_mode": "static",
        "security_protocol": "SASL_SSL",
        "sasl_plain_password": "hunter2",
        "new_topic": True,
    }
    notices = notices_of(tmp_path, twins)
    assert "attributes.worker_allocation_mode: has no effect here: mlrun's own Kafka client" in notices
    assert len(notices.splitlines()) == len(twins)
    assert "hunter2" not in notices
    assert loaded(tmp_path, twins).worker_allocation_mode == "pool"


@pytest.mark.parametrize(
    ("place", "key", "says"),
    [
        ("attributes.tls", "minVersion", "unknown key; the nearest known key is minimumVersion"),
        ("attributes", "ackMode", "unknown key; the nearest known key is "),
        (
            "attributes",
            "workerTerminationTimeout",
            "unknown key here; it is a field of the trigger, beside attributes",
        ),
        ("attributes", "numWorkers", "unknown key here; it is a field of the trigger, beside attributes"),
        ("", "sessionTimeout", "unknown key here; it is an attribute of kafka-cluster"),
        ("", "numWorker", "unknown key; the nearest known key is numWorkers"),
    ],
)
def test_typos_of_nuclios_own_pages_name_the_key_that_was_meant(
    tmp_path: Path, place: str, key: str, says: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        mapping = document["spec"]["triggers"]["t"]
        for part in filter(None, place.split(".")):
            mapping = mapping.setdefault(part, {})
        mapping[key] = "10s"

    text = problems_of(tmp_path, change)
    assert f"{key}: {says}" in text
    assert "_" not in text.partition(": unknown key")[2]  # none of mlrun's twins


def test_a_typo_in_build_names_the_key_that_was_meant(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["build"] = {"noBaseImagePull": True}

    says = "spec.build.noBaseImagePull: unknown key; the nearest known key is noBaseImagesPull"
    assert says in problems_of(tmp_path, change)
