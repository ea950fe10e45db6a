"""groupInstanceId, with running replicas on a real broker: who waits for whom, and what ends before what."""

from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from group_sessions import remove_static_member, set_session
from joining_replicas import WRITES, only_once
from kafka_records import group_offsets, handled, produce
from replica import frozen, lines, replica, set_trigger, wait_until, write_function

BOX: dict[str, Any] = {"groupProtocol": "consumer", "groupInstanceId": "box-1"}
# Says all the time that it is in its first record, until it may go on.
TICKS = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}", f"starts-{os.getppid()}")
        while event.offset == 0 and not exists("go"):
            write(time.monotonic_ns(), f"ticks-{os.getppid()}")
            time.sleep(0.01)
        write(f"{event.topic} {event.shard_id} {event.offset}")
"""
TAKEN = "another member of group {group} has groupInstanceId box-1 now"


@pytest.mark.full
def test_of_two_replicas_with_one_id_the_second_waits_and_says_for_whom(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **BOX)
    with replica(folder, name="-a") as first:
        first.wait_ready()
        with replica(folder, name="-b") as second:
            said = "groupInstanceId box-1: waiting until"
            wait_until(lambda: said in second.get("/ready")[1], about=second)
            assert second.get("/ready")[0] == 503
            produce(broker, topic, 40)
            wait_until(lambda: len(lines(folder)) >= 40, about=first)
            assert not second.trigger()["partitions"]
            assert first.stop() == 0
            second.wait_ready()
            produce(broker, topic, 40)
            wait_until(lambda: len(lines(folder)) >= 80, about=second)
            assert second.stop() == 0
    assert only_once(folder, 80)
    assert group_offsets(broker, f"group-{topic}") == {(topic, number): 10 for number in range(8)}


def test_what_a_frozen_replica_was_in_has_ended_before_who_replaces_it_begins(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", TICKS, broker.bootstrap, [topic], **BOX)
    group = f"group-{topic}"
    set_session(broker, group, 2.0)
    produce(broker, topic, 40)
    with replica(folder, name="-a") as first:
        wait_until(lambda: lines(folder, f"ticks-{first.process.pid}"), about=first)
        with replica(folder, name="-b") as second:
            with frozen(first):
                wait_until(lambda: lines(folder, f"ticks-{second.process.pid}"), about=second)
            assert first.process.wait(120) == 3
            assert TAKEN.format(group=group) in first.log
            (folder / "go").touch()
            wait_until(lambda: len(lines(folder)) >= 40, about=second)
            assert second.stop() == 0
    (before, after) = (lines(folder, f"ticks-{it.process.pid}") for it in (first, second))
    assert int(before[-1]) < int(after[0])
    assert handled(folder) == {(topic, number): list(range(5)) for number in range(8)}
    assert group_offsets(broker, group) == {(topic, number): 5 for number in range(8)}


@pytest.mark.full
def test_who_is_replaced_within_its_session_ends_at_once(broker: Broker, topic: str, tmp_path: Path) -> None:
    """An operator removed it from its group: what it is in gets none of the time of a stop."""
    folder = write_function(tmp_path / "f", TICKS, broker.bootstrap, [topic], **BOX)
    set_trigger(folder, workerTerminationTimeout="1h")
    group = f"group-{topic}"
    set_session(broker, group, 45.0)
    produce(broker, topic, 40)
    with replica(folder, name="-a") as first:
        wait_until(lambda: lines(folder, f"ticks-{first.process.pid}"), about=first)
        with replica(folder, name="-b") as second:
            with frozen(first):
                remove_static_member(broker, group, "box-1")
                wait_until(lambda: len(second.trigger()["partitions"]) == 8, about=second)
            assert first.process.wait(120) == 3
            assert TAKEN.format(group=group) in first.log
            assert "its lease is over" not in first.log
            (folder / "go").touch()
            wait_until(lambda: len(lines(folder)) >= 40, about=second)
            assert second.stop() == 0
    assert handled(folder) == {(topic, number): list(range(5)) for number in range(8)}
