"""A short look at each kind of storm; `make storm` has them at length."""

import random
from pathlib import Path

import pytest
from broker import Broker
from failpoints import SCENARIOS as FAILPOINTS
from faults import SCENARIOS as FAULTS
from network import SCENARIOS as NETWORK
from produces import SCENARIOS as PRODUCES
from refused import SCENARIOS as REFUSED
from reload_acks import SCENARIOS as RELOADS
from scenario import Report, Scenario
from static_members import SCENARIOS as STATIC_MEMBERS

LOAD_SECONDS = 4.0
EACH_FAULT_SECONDS = 15.0


def holds(scenario: Scenario, name: str, broker: Broker, folder: Path, seconds: float = LOAD_SECONDS) -> bool:
    random.seed(name)
    report = Report(seconds)
    scenario(broker, folder, 0, report)
    return report.show(name)


@pytest.mark.full_but("before-commit")
@pytest.mark.parametrize("name", FAILPOINTS)
def test_nothing_is_lost_wherever_a_process_is_killed(name: str, broker: Broker, tmp_path: Path) -> None:
    assert holds(FAILPOINTS[name], name, broker, tmp_path)


@pytest.mark.full_but("k1-pool")
@pytest.mark.parametrize("name", ["k1-pool", "k2", "k3", "k4"])
def test_every_promise_on_records_holds_under_faults(name: str, broker: Broker, tmp_path: Path) -> None:
    assert holds(FAULTS[name], name, broker, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", ["k1-static", "r1", "t1"])
def test_every_promise_on_records_holds_for_longer(name: str, broker: Broker, tmp_path: Path) -> None:
    assert holds(FAULTS[name], name, broker, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(NETWORK.keys() - {"cut-60s"}))
def test_every_promise_on_records_holds_when_the_broker_is_away(
    name: str, broker: Broker, tmp_path: Path
) -> None:
    assert holds(NETWORK[name], name, broker, tmp_path)


@pytest.mark.full
def test_every_promise_holds_where_replicas_come_under_ids_of_others(broker: Broker, tmp_path: Path) -> None:
    name = "instance-ids"
    assert holds(STATIC_MEMBERS[name], name, broker, tmp_path, EACH_FAULT_SECONDS)


@pytest.mark.full
def test_no_result_is_missing_for_what_is_committed_whatever_is_killed(
    broker: Broker, tmp_path: Path
) -> None:
    assert holds(PRODUCES["produce-plain"], "produce-plain", broker, tmp_path, EACH_FAULT_SECONDS)


@pytest.mark.full
@pytest.mark.parametrize("name", ["refused-plain", "refused-once"])
def test_each_record_has_its_message_or_is_a_dead_letter_where_some_are_refused(
    name: str, broker: Broker, tmp_path: Path
) -> None:
    assert holds(REFUSED[name], name, broker, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(REFUSED.keys() - {"refused-plain", "refused-once"}))
def test_refused_messages_lose_and_stall_nothing_in_any_mode(
    name: str, broker: Broker, tmp_path: Path
) -> None:
    assert holds(REFUSED[name], name, broker, tmp_path, EACH_FAULT_SECONDS)


@pytest.mark.full
def test_acks_that_are_held_open_outlive_reloads_of_their_handler(broker: Broker, tmp_path: Path) -> None:
    name = "reload-held-acks"
    assert holds(RELOADS[name], name, broker, tmp_path, EACH_FAULT_SECONDS)
