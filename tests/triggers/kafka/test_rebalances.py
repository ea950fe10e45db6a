"""Rebalances, step by step, with two running replicas on a real broker. Storms measure the same."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from broker import Broker
from joining_replicas import WAITS, WRITES, explicit, only_once, starts
from kafka_records import group_offsets, produce
from replica import Replica, lines, replica, wait_until, write_function


@pytest.mark.usefixtures("either_path")
def test_a_handler_that_outsleeps_its_wait_is_killed_on_time_and_its_record_goes_on(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """waitExplicitAckDuringRebalanceTimeout neither delays the kill nor, as nothing is open, the rejoin."""
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset} {time.time()}")
            if not exists("go"):
                wait_for("never")
    """
    folder = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        maxWaitHandlerDuringRebalance="1s",
    )
    explicit(folder, waitExplicitAckDuringRebalanceTimeout="45s")
    produce(broker, topic, 8)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            began = first.logged("revoked:")
            (folder / "go").touch()
            killed = first.logged("was killed in")
            assert 0.99 < killed - began < 4.5  # the default is 5 s
            wait_until(lambda: len(lines(folder)) == 10, about=second)
            interrupted = [start[:3] for start in starts(folder)[:2]]
            again = [start for start in starts(folder)[2:] if start[:3] in interrupted]
            assert sorted(start[:3] for start in again) == sorted(interrupted)
            assert max(float(start[3]) for start in again) - killed < 35  # not the 45 s for acks
            assert "headrace_workers_killed_total{" in first.get("/metrics")[1]
    assert "failed at attempt" not in first.log + second.log


def test_the_group_waits_for_a_handler_that_ends_in_time(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(
        tmp_path / "f", WAITS, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="40s"
    )
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            time.sleep(1)  # nothing must happen in it
            assert "assigned:" not in second.log
            assert len(lines(folder)) == 2
            (folder / "go").touch()
            second.logged("assigned:")
            assert len(lines(folder, "ended")) >= 2
            wait_until(lambda: len(lines(folder)) >= 80, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 80)
    assert group_offsets(broker, f"group-{topic}") == {(topic, number): 10 for number in range(8)}


@pytest.mark.full
def test_a_newcomer_to_an_idle_group_gets_its_first_record_soon(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], sessionTimeout="40s")
    sent = 0
    with replica(folder, name="-a") as first:
        first.wait_ready()
        with replica(folder, name="-b") as second:
            joined = second.logged("connected to")
            while not any(start[3] == str(second.process.pid) for start in starts(folder)):
                produce(broker, topic, 8)
                sent += 8
            assert time.time() - joined < 35  # not until a session of 40 s has ended
            wait_until(lambda: len(lines(folder)) >= sent, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, sent)


@pytest.mark.full
def test_replicas_that_start_together_get_their_first_records_soon(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A join that another one overtakes is no failure that a wait would mend."""
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], workers=1, rebalanceRetryBackoff="120s"
    )
    sent = 0
    with ExitStack() as stack:
        running = [stack.enter_context(replica(folder, name=f"-{number}")) for number in range(5)]
        connected = max(one.logged("connected to") for one in running)
        pids = {str(one.process.pid) for one in running}
        while {start[3] for start in starts(folder)} != pids:
            produce(broker, topic, 8)
            sent += 8
            assert time.time() - connected < 60, "".join(one.log for one in running)
        wait_until(lambda: len(lines(folder)) >= sent)
        logs = [one.log for one in running]
        assert [one.stop() for one in running] == [0] * 5
    assert not [line for log in logs for line in log.splitlines() if "failed" in line]
    assert only_once(folder, sent)


@pytest.mark.full
def test_a_group_that_is_full_is_said_waited_for_and_joined(narrow_broker: Broker, tmp_path: Path) -> None:
    topic = narrow_broker.create_topic(8)
    folder = write_function(
        tmp_path / "f",
        WRITES,
        narrow_broker.bootstrap,
        [topic],
        rebalanceRetryMax=2,
        rebalanceRetryBackoff="200ms",
    )
    produce(narrow_broker, topic, 80)
    with replica(folder, name="-a") as first:
        first.wait_ready()
        with replica(folder, name="-b") as second:
            again = second.logged("failed 6 times in a row")
            assert "ERROR" in next(line for line in second.log.splitlines() if "failed 3 times" in line)
            assert second.log.count("joining group") == 2
            assert again - second.logged("failed 3 times in a row") > 0.55
            status, body = second.get("/ready")
            assert status == 503
            assert f"joining group group-{topic} failed" in body
            assert failed_joins(second) >= 2
            assert first.stop() == 0
            second.logged(f"joined group group-{topic} after it failed")
            second.wait_ready()
            produce(narrow_broker, topic, 80)
            wait_until(lambda: len(lines(folder)) >= 160, about=second)
            assert second.stop() == 0
    assert only_once(folder, 160)


def failed_joins(running: Replica) -> float:
    """The counter, of its one trigger."""
    (row,) = [
        row
        for row in running.get("/metrics")[1].splitlines()
        if row.startswith("headrace_failed_joins_total{")
    ]
    return float(row.split()[-1])
