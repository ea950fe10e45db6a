"""A replica that its group has given up, and what its handlers do then."""

import os
import signal
import time
from pathlib import Path

import pytest
from broker import Broker
from kafka_records import group_offsets, handled, produce
from processes import is_running
from replica import lines, replica, wait_until, write_function


def test_a_replica_that_lost_its_membership_kills_its_handlers_and_commits_nothing(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Frozen past its session, its processor wakes up with a record that is handled, and one that isn't."""
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
            wait_for(f"go-{event.shard_id}-{os.getppid()}")
            write(f"{event.shard_id} {os.getppid()}", "ended")
    """
    folder = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        sessionTimeout="2s",
        partitions=[0, 1],
        maxWaitHandlerDuringRebalance="30s",
    )
    produce(broker, topic, 16)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        os.kill(first.process.pid, signal.SIGSTOP)
        (folder / f"go-0-{first.process.pid}").touch()
        wait_until(lambda: lines(folder, "ended"))
        with replica(folder, name="-b") as second:
            wait_until(lambda: len(lines(folder)) >= 4, about=second)
            woke = time.time()
            os.kill(first.process.pid, signal.SIGCONT)
            lost = first.logged("the membership in the group is lost", after=woke - 0.01)
            assert first.logged(f"was killed in {topic}/1 offset 0") - lost < 15
            second.logged("revoked:")  # the first one is joining again, and what it had to say is said
            assert set(group_offsets(broker, f"group-{topic}").values()) <= {0}
            for number in (0, 1):
                for running in (first, second):
                    (folder / f"go-{number}-{running.process.pid}").touch()
            wait_until(lambda: sum(len(set(o)) for o in handled(folder).values()) == 4, about=second)
            wait_until(lambda: set(group_offsets(broker, f"group-{topic}").values()) == {2}, about=second)
            assert sum(worker["restarts"] for worker in first.trigger()["workers"]) == 2  # the idle one too
            assert (second.stop(), first.stop()) == (0, 0)
    assert "a bug of Headrace" not in first.log + second.log


@pytest.mark.full
def test_a_frozen_replica_starts_nothing_after_its_session_and_counts_no_attempt(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Its workers are busy, one of them in a C call that holds the interpreter."""
    handler = """
        import ctypes

        def handler(context, event):
            started = f"{os.getppid()} {time.time()} {event.attempt}"
            write(f"{event.topic} {event.shard_id} {event.offset} {started}")
            if event.offset == 100 and event.shard_id == 0 and not exists("go"):
                ctypes.PyDLL(None).sleep(60)
            time.sleep(0.002)
    """
    folder = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        sessionTimeout="2s",
        workerAllocationMode="static",
    )
    with replica(folder, name="-a") as first:
        first.wait_ready()
        produce(broker, topic, 8000)
        wait_until(lambda: any(line.startswith(f"{topic} 0 100 ") for line in lines(folder)), about=first)
        pids = first.worker_pids()
        os.kill(first.process.pid, signal.SIGSTOP)
        with replica(folder, name="-b") as second:
            owned = second.logged("assigned:")
            wait_until(lambda: not any(map(is_running, pids)))  # while their processor can't act
            (folder / "go").touch()
            woke = time.time()
            os.kill(first.process.pid, signal.SIGCONT)
            wait_until(lambda: sum(len(set(o)) for o in handled(folder).values()) == 8000, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    rows = [line.split() for line in lines(folder)]
    assert not [row for row in rows if row[3] == str(first.process.pid) and owned < float(row[4]) < woke]
    assert {row[5] for row in rows} == {"1"}
