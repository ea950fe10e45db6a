"""groupProtocol, and what can't stand beside it."""

from pathlib import Path

import pytest
from kafka_settings import loaded, problems_with

from headrace.triggers.kafka.client.connect import consumer_options

CONSUMER = {"groupProtocol": "consumer"}


@pytest.mark.parametrize(
    ("attribute", "value", "by"),
    [
        ("sessionTimeout", "10s", "group.consumer.session.timeout.ms"),
        ("heartbeatInterval", "3s", "group.consumer.heartbeat.interval.ms"),
        ("balanceStrategy", "range", "groupRemoteAssignor"),
    ],
)
def test_what_the_broker_decides_is_not_given_twice(
    tmp_path: Path, attribute: str, value: str, by: str
) -> None:
    text = problems_with(tmp_path, CONSUMER, {attribute: value})
    assert (
        f"attributes.{attribute}: with groupProtocol: consumer the broker decides, by {by}; remove it" in text
    )


def test_an_assignor_of_the_broker_needs_its_protocol(tmp_path: Path) -> None:
    text = problems_with(tmp_path, {"groupRemoteAssignor": "range"})
    assert "attributes.groupRemoteAssignor: needs groupProtocol: consumer" in text


def test_transactions_are_not_built_for_it(tmp_path: Path) -> None:
    text = problems_with(tmp_path, CONSUMER, {"exactlyOnce": True})
    assert "attributes.exactlyOnce: with groupProtocol: consumer is known, but not built" in text


def test_an_instance_id_needs_the_protocol_that_waits_for_the_one_before(tmp_path: Path) -> None:
    text = problems_with(tmp_path, {"groupInstanceId": "box-1"})
    assert "attributes.groupInstanceId: needs groupProtocol: consumer (Kafka 4.0 or newer)" in text
    assert "remove it" in text


def test_who_writes_transactions_is_told_to_have_no_instance_id(tmp_path: Path) -> None:
    """The other protocol isn't built for them."""
    text = problems_with(tmp_path, {"groupInstanceId": "box-1", "exactlyOnce": True})
    assert "attributes.groupInstanceId: is not for exactlyOnce" in text


def test_variables_in_an_instance_id_are_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTNAME", "box-7")
    own = loaded(tmp_path, CONSUMER, {"groupInstanceId": "f-$HOSTNAME"})
    assert own.of_replica(None).group_instance_id == "f-box-7"
    assert own.of_replica(2).group_instance_id == "f-box-7-2"


def test_with_it_the_consumer_is_in_no_group(tmp_path: Path) -> None:
    assert consumer_options(loaded(tmp_path, CONSUMER))["group_id"] is None
