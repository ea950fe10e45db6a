"""Rebalances, step by step, with two running replicas on a real broker. Storms measure the same."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from broker import Broker
from kafka_records import group_offsets, handled, produce
from replica import Replica, is_running, lines, replica, set_trigger, wait_until, write_function

from headrace.runtime.config.function import load_function
from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.processor.processor import Processor
from headrace.triggers.kafka import trigger as kafka

# Writes each start, with the processor that it was in.
WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
"""
# The same, and stays in its first record of a partition until `go` is there.
WAITS = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
        if event.offset == 0:
            wait_for("go")
        write(f"{event.topic} {event.shard_id} {event.offset}", "ended")
"""
# Holds on to each record. A worker is in the middle of nothing, and acks when it is told to by a file.
ACKS_LATER = """
    import nuclio_sdk
    held = []
    background = set()

    def init_context(context):
        async def ack():
            for name in ("soon", "late"):
                while not exists(name):
                    await asyncio.sleep(0.01)
                for offset in [it for it in held if (it.offset == 0) == (name == "soon")]:
                    said = await context.platform.explicit_ack(offset)
                    write(f"{offset.topic} {offset.partition} {offset.offset} {said}", name + "-said")
                write("done", name + "-done")
        async def on_drain():
            write(time.time(), "drained")
            if not background and held:
                background.add(asyncio.create_task(ack()))
        context.platform.set_drain_callback(on_drain)

    async def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
        held.append(nuclio_sdk.QualifiedOffset.from_event(event))
"""


def starts(folder: Path) -> list[list[str]]:
    """Topic, partition, offset and processor of each start of a handler."""
    return [line.split() for line in lines(folder)]


def only_once(folder: Path, count: int) -> bool:
    """Whether all of `count` records were handled, and none twice."""
    found = handled(folder)
    return len(lines(folder)) == sum(len(set(offsets)) for offsets in found.values()) == count


def explicit(folder: Path, mode: str = "explicitOnly", **fields: object) -> Path:
    """The function, with explicit acks."""
    return set_trigger(folder, explicitAckMode=mode, **fields)


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
    explicit(folder, waitExplicitAckDuringRebalanceTimeout="20s")
    produce(broker, topic, 8)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            began = first.logged("revoked:")
            (folder / "go").touch()
            killed = first.logged("was killed in")
            assert 0.99 < killed - began < 1.5
            wait_until(lambda: len(lines(folder)) == 10, about=second)
            interrupted = [start[:3] for start in starts(folder)[:2]]
            again = [start for start in starts(folder)[2:] if start[:3] in interrupted]
            assert sorted(start[:3] for start in again) == sorted(interrupted)
            assert max(float(start[3]) for start in again) - killed < 5
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


def test_a_newcomer_to_an_idle_group_gets_its_first_record_soon(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    sent = 0
    with replica(folder, name="-a") as first:
        first.wait_ready()
        with replica(folder, name="-b") as second:
            joined = second.logged("connected to")
            while not any(start[3] == str(second.process.pid) for start in starts(folder)):
                produce(broker, topic, 8)
                sent += 8
            assert time.time() - joined < 3
            wait_until(lambda: len(lines(folder)) >= sent, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, sent)


def test_a_drain_callback_runs_beside_a_computation_and_what_it_acks_is_committed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        import nuclio_sdk
        current = []

        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
            current[:] = [nuclio_sdk.QualifiedOffset.from_event(event)]
            end = time.monotonic() + (0 if exists("go") else 60)
            while time.monotonic() < end:
                sum(range(1000))

        def init_context(context):
            async def on_drain():
                write(time.time(), "drained")
                for offset in current:
                    await context.platform.explicit_ack(offset)
            context.platform.set_drain_callback(on_drain)
    """
    folder = write_function(
        tmp_path / "f",
        handler,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        maxWaitHandlerDuringRebalance="1s",
    )
    explicit(folder, "enable")
    produce(broker, topic, 16)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        acked = [(name, int(partition)) for name, partition, _ in starts(folder)]
        with replica(folder, name="-b") as second:
            began = first.logged("revoked:")
            (folder / "go").touch()
            second.logged("assigned:")
            offsets = group_offsets(broker, f"group-{topic}")
            assert all(offsets[partition] >= 1 for partition in acked)
            assert all(float(when) - began < 1 for when in lines(folder, "drained")[:2])
            wait_until(lambda: len(lines(folder)) >= 16, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 16)


def test_acks_count_until_the_wait_for_them_ends_and_no_longer(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", ACKS_LATER, broker.bootstrap, [topic], workerAllocationMode="static"
    )
    explicit(folder, waitExplicitAckDuringRebalanceTimeout="2s")
    produce(broker, topic, 16)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 16, about=first)
        with replica(folder, name="-b") as second:
            began = first.logged("revoked:")
            wait_until(lambda: len(lines(folder, "drained")) == 2, about=first)
            (folder / "soon").touch()
            assert second.logged("assigned:") - began > 1.9  # offsets 1 stay open
            assert set(group_offsets(broker, f"group-{topic}").values()) == {1}
            wait_until(lambda: len(lines(folder)) >= 24, about=second)
            (folder / "late").touch()
            wait_until(lambda: len(lines(folder, "late-done")) >= 2, about=first)
            said = {tuple(line.split()) for line in lines(folder, "late-said")}
            kept = {str(row["partition"]) for row in first.trigger()["partitions"]}
            assert {partition for _, partition, _, is_ours in said if is_ours == "True"} == kept
    assert {line.split()[3] for line in lines(folder, "soon-said")} == {"True"}
    assert all(handled(folder)[topic, number][:3] == [0, 1, 1] for number in range(8))
    assert not any(handled(folder)[topic, number].count(0) > 1 for number in range(8))


def test_the_wait_for_acks_ends_when_nothing_is_open(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(
        tmp_path / "f", ACKS_LATER, broker.bootstrap, [topic], workerAllocationMode="static"
    )
    explicit(folder, waitExplicitAckDuringRebalanceTimeout="30s")
    produce(broker, topic, 8)
    (folder / "soon").touch()
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 8, about=first)
        with replica(folder, name="-b") as second:
            began = first.logged("revoked:")
            assert second.logged("assigned:") - began < 5
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 8)


@pytest.mark.usefixtures("either_path")
def test_an_ack_that_crosses_a_revoke_is_refused_and_its_record_comes_again(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The callback keeps its worker from hearing that the partitions are gone, until it has acked."""
    handler = """
        import nuclio_sdk
        held = []

        def init_context(context):
            async def on_drain():
                if not held:
                    return
                sys.setswitchinterval(20)
                end = time.monotonic() + 1.5
                while time.monotonic() < end:
                    pass
                said = await context.platform.explicit_ack(held.pop())
                sys.setswitchinterval(0.001)
                write(said, "said")
            context.platform.set_drain_callback(on_drain)

        async def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
            if event.shard_id in (0, 4) and not exists("joined"):
                held.append(nuclio_sdk.QualifiedOffset.from_event(event))
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], workerAllocationMode="static")
    explicit(folder)
    produce(broker, topic, 8)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 8, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            (folder / "joined").touch()
            wait_until(lambda: len(lines(folder, "said")) == 2, about=first)
            (gone,) = {row["partition"] for row in second.trigger()["partitions"]} & {0, 4}
            first.logged(f"an ack of {topic}/{gone} offset 0 is refused: the partition is not assigned")
            wait_until(lambda: len(lines(folder)) >= 9, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert lines(folder, "said") == ["True", "True"]
    assert len(handled(folder)[topic, gone]) > 1
    # The other one, if it came while the group was still rebalancing, was nobody's.
    is_refused = f"an ack of {topic}/{4 - gone} offset 0 is refused" in first.log
    assert group_offsets(broker, f"group-{topic}")[topic, 4 - gone] == (0 if is_refused else 1)


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
            assert first.logged(f"was killed in {topic}/1 offset 0") - lost < 1
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
            assert not any(map(is_running, pids))
            (folder / "go").touch()
            woke = time.time()
            os.kill(first.process.pid, signal.SIGCONT)
            wait_until(lambda: sum(len(set(o)) for o in handled(folder).values()) == 8000, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    rows = [line.split() for line in lines(folder)]
    assert not [row for row in rows if row[3] == str(first.process.pid) and owned < float(row[4]) < woke]
    assert {row[5] for row in rows} == {"1"}


def test_replicas_that_start_together_get_their_first_records_soon(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A join that another one overtakes is no failure that a wait would mend."""
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], workers=1, rebalanceRetryBackoff="20s"
    )
    sent = 0
    with ExitStack() as stack:
        running = [stack.enter_context(replica(folder, name=f"-{number}")) for number in range(5)]
        connected = max(one.logged("connected to") for one in running)
        pids = {str(one.process.pid) for one in running}
        while {start[3] for start in starts(folder)} != pids:
            produce(broker, topic, 8)
            sent += 8
            assert time.time() - connected < 15, "".join(one.log for one in running)
        wait_until(lambda: len(lines(folder)) >= sent)
        logs = [one.log for one in running]
        assert [one.stop() for one in running] == [0] * 5
    assert not [line for log in logs for line in log.splitlines() if "failed" in line]
    assert only_once(folder, sent)


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


def test_a_newcomer_that_stops_while_it_waits_for_the_group_leaves_at_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WAITS, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="40s"
    )
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            began = time.time()
            assert second.stop() == 0
            assert time.time() - began < 3
            assert last_words(second) == ["SIGTERM: stopping", "stopped"]
        (folder / "go").touch()
        assert first.logged(f"assigned: {topic}/0-7", after=began) - time.time() < 1
        wait_until(lambda: len(lines(folder)) >= 80, about=first)
        assert first.stop() == 0
    assert only_once(folder, 80)


def test_a_replica_that_stops_while_its_handlers_hold_up_a_rebalance_stops_on_time(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A stop gives handlers workerTerminationTimeout, also where a rebalance would give them more."""
    folder = write_function(
        tmp_path / "f", WAITS, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="40s"
    )
    set_trigger(folder, workerTerminationTimeout="1s")
    produce(broker, topic, 80)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            began = time.time()
            assert first.stop() == 0
            assert 0.9 < time.time() - began < 4
            second.logged(f"assigned: {topic}/0-7")
            (folder / "go").touch()
            wait_until(lambda: len(lines(folder)) >= 82, about=second)
            assert second.stop() == 0
    assert sum(len(set(offsets)) for offsets in handled(folder).values()) == 80


async def test_a_stop_does_not_wait_for_an_assignment_that_is_still_read(
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_reading = asyncio.Event()

    async def read_starts(*_: object) -> None:
        is_reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(kafka, "read_starts", read_starts)
    for bound in ("_COMMIT_TIMEOUT_SECONDS", "_LEAVE_TIMEOUT_SECONDS"):
        monkeypatch.setattr(kafka, bound, 600.0)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    stop = asyncio.Event()
    async with asyncio.timeout(120):
        running = asyncio.create_task(Processor([load_function(folder, installed_kinds())], "").run(stop))
        await is_reading.wait()
    stop.set()
    async with asyncio.timeout(60):
        await running
    assert "offset" not in caplog.text
    assert await asyncio.to_thread(group_offsets, broker, f"group-{topic}") == {}


@contextmanager
def mortal_broker() -> Iterator[tuple[Broker, int]]:
    """A broker of this test's own, and its process."""
    embedded = EmbeddedKafka()
    asyncio.run(embedded.start())
    assert embedded.pid is not None
    try:
        yield Broker(embedded.bootstrap, "embedded"), embedded.pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(embedded.pid, signal.SIGCONT)
        asyncio.run(embedded.stop())


@contextmanager
def stopping_without(folder: Path, how: signal.Signals) -> Iterator[Replica]:
    """A replica with something to commit that is told to stop just after that happened to its broker."""
    with mortal_broker() as (broker, pid):
        topic = broker.create_topic(8)
        write_function(folder, WAITS, broker.bootstrap, [topic])
        produce(broker, topic, 8)
        with replica(folder) as running:
            wait_until(lambda: len(lines(folder)) == 2, about=running)
            os.kill(pid, how)
            (folder / "go").touch()
            running.process.send_signal(signal.SIGTERM)
            yield running


def test_a_stop_is_bounded_while_the_broker_is_dead_or_frozen(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stopping = [
            stack.enter_context(stopping_without(tmp_path / how.name, how))
            for how in (signal.SIGKILL, signal.SIGSTOP)
        ]
        assert [running.process.wait(120) for running in stopping] == [0, 0]
    lost = "a commit failed (no answer within 5 s): what it covered is delivered again if this replica goes"
    left = "leaving the group failed (no answer within 5 s): it notices by sessionTimeout"
    for_dead, for_frozen = map(last_words, stopping)
    assert for_dead[-2:] == [lost, "stopped"]
    assert for_frozen[-3:] == [lost, left, "stopped"]


def last_words(running: Replica) -> list[str]:
    """What it said from the signal on: each line up to the first ;, without clock and INFO."""
    said = running.log[running.log.index("INFO    SIGTERM") :].splitlines()
    return [re.sub(r"^[\d:.]+ |(INFO|WARNING) +|;.*", "", line) for line in said]
