"""The Kafka trigger in a running system, on a real broker."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import group_offsets, handled, produce, send_undecodable, truncate
from processes import is_running
from replica import DECODED, Replica, lines, replica, wait_until, write_function

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {context.worker_id}")
"""


@pytest.mark.usefixtures("either_path")
def test_every_record_is_handled_once_in_order_and_committed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, 4000)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 4000, about=running)
        assert running.stop() == 0
    assert handled(folder) == {(topic, partition): list(range(500)) for partition in range(8)}
    assert group_offsets(broker, f"group-{topic}") == {(topic, partition): 500 for partition in range(8)}


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_partitions_without_records_hold_up_no_others(broker: Broker, topic: str, tmp_path: Path) -> None:
    """A request about them alone would wait at the broker, and the others' next records for its answer."""
    produce(broker, topic, 4000, partitions=1, size=1000)
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], maxWaitTime="20s", fetchDefault=100_000
    )
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 4000, about=running)  # 40 answers
        assert running.stop() == 0


@pytest.mark.usefixtures("either_path")
def test_a_second_replica_takes_over_without_a_loss_or_a_duplicate(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    with replica(folder, name="-a") as first, replica(folder, name="-b") as second:
        first.wait_ready()
        second.wait_ready()
        wait_until(lambda: len(first.committed()) == len(second.committed()) == 4)
        produce(broker, topic, 2000)
        wait_until(lambda: len(lines(folder)) >= 1000)
        assert first.stop() == 0
        wait_until(lambda: len(second.committed()) == 8)
        produce(broker, topic, 2000)
        wait_until(lambda: len(lines(folder)) >= 4000)
        assert second.stop() == 0
    assert handled(folder) == {(topic, partition): list(range(500)) for partition in range(8)}


def test_a_long_computation_costs_no_heartbeat_and_no_rebalance(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            until = time.monotonic() + 9
            while time.monotonic() < until:
                sum(range(1000))
            write(event.offset)
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], heartbeatInterval="2s")
    with replica(folder) as running:
        running.wait_ready()
        generation = running.trigger()["generation"]
        produce(broker, topic, 1)
        wait_until(lambda: lines(folder) == ["0"], about=running)
        assert running.trigger()["generation"] == generation


@pytest.mark.usefixtures("either_path")
def test_a_killed_worker_repeats_exactly_the_record_that_it_was_in(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
            if (event.shard_id, event.offset, event.attempt) == (3, 100, 1):
                write("here", "reached")
                wait_for("never")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], workers=2)
    produce(broker, topic, 2000)
    with replica(folder) as running:
        wait_until(lambda: lines(folder, "reached"), about=running)
        (victim,) = [w for w in running.trigger()["workers"] if w["running"] == f"{topic}/3 offset 100"]
        os.kill(victim["pid"], signal.SIGKILL)
        wait_until(lambda: len(lines(folder)) >= 2001, about=running)
        assert running.stop() == 0
    expected = {(topic, partition): list(range(250)) for partition in range(8)}
    expected[topic, 3] = [*range(101), *range(100, 250)]
    assert handled(folder) == expected


@pytest.mark.parametrize(
    "handler",
    [
        "def handler(context, event):\n    write('in')\n    wait_for('never')",
        # Holds the interpreter for minutes: no thread of that process can run.
        "import re\ndef handler(context, event):\n    write('in')\n    re.match('(a+)+$', 'a' * 60 + 'b')",
        "async def handler(context, event):\n    write('in')\n    await asyncio.sleep(600)",
    ],
    ids=["sleeping", "holding the interpreter", "async"],
)
def test_workers_die_with_their_processor(broker: Broker, topic: str, tmp_path: Path, handler: str) -> None:
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic])
    produce(broker, topic, 16)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 2, about=running)
        pids = running.worker_pids()
        assert all(map(is_running, pids))
        running.kill()
        wait_until(lambda: not any(map(is_running, pids)))


@pytest.mark.usefixtures("either_path")
def test_a_killed_processor_loses_nothing(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], sessionTimeout="2s")
    produce(broker, topic, 4000)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) > 200, about=first)
        first.kill()
    with replica(folder, name="-b") as second:
        wait_until(lambda: sum(len(set(o)) for o in handled(folder).values()) == 4000, about=second)
        assert second.stop() == 0
    assert {key: sorted(set(offsets)) for key, offsets in handled(folder).items()} == {
        (topic, partition): list(range(500)) for partition in range(8)
    }


@pytest.mark.full
def test_static_ranges_are_what_the_status_says(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(20)
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], workers=5, workerAllocationMode="static"
    )
    with replica(folder) as running:
        running.wait_ready()
        shown = [worker["partitions"] for worker in running.trigger()["workers"]]
        assert shown == [f"{topic}/{first}-{first + 3}" for first in range(0, 20, 4)]
        produce(broker, topic, 400, partitions=20)
        wait_until(lambda: len(lines(folder)) == 400, about=running)
    assert all(int(line.split()[3]) == int(line.split()[1]) // 4 for line in lines(folder))


def test_pool_keeps_other_workers_busy_while_one_is_in_a_long_record(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            if event.shard_id == 0 and event.offset == 10:
                wait_for("go")
            write(f"{event.topic} {event.shard_id} {event.offset}")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], workers=2)
    produce(broker, topic, 8000)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 7010, about=running)
        (folder / "go").touch()
        wait_until(lambda: len(lines(folder)) == 8000, about=running)
    assert handled(folder) == {(topic, partition): list(range(1000)) for partition in range(8)}


def test_the_partitions_attribute_leaves_the_others_alone(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], partitions=[1, 6])
    produce(broker, topic, 800)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 200, about=running)
        assert running.stop() == 0
    assert handled(folder) == {(topic, partition): list(range(100)) for partition in (1, 6)}
    assert group_offsets(broker, f"group-{topic}") == {(topic, partition): 100 for partition in (1, 6)}


def test_initial_offset_latest_skips_what_was_there_and_nothing_after(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], initialOffset="latest")
    produce(broker, topic, 800)
    with replica(folder, name="-a") as running:
        running.wait_ready()
        wait_until(lambda: set(running.committed().values()) == {100}, about=running)
        running.kill()  # the start position is committed at once: nothing produced from here on is skipped
    produce(broker, topic, 80)
    with replica(folder, name="-b") as running:
        wait_until(lambda: len(lines(folder)) >= 80, about=running)
    assert handled(folder) == {(topic, partition): list(range(100, 110)) for partition in range(8)}


def test_a_commit_out_of_range_goes_on_with_the_earliest_record(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], partitions=[0])
    produce(broker, topic, 10, partitions=1)
    with replica(folder, name="-a") as running:
        wait_until(lambda: len(lines(folder)) == 10, about=running)
        assert running.stop() == 0
    produce(broker, topic, 90, partitions=1)
    truncate(broker, topic, 0, before=60)
    with replica(folder, name="-b") as running:
        wait_until(lambda: len(lines(folder)) >= 50, about=running)
        assert running.stop() == 0
        assert "offset 10 is out of range, going on with 60" in running.log
    assert handled(folder)[topic, 0] == [*range(10), *range(60, 100)]


@pytest.mark.usefixtures("either_path")
def test_control_records_at_the_end_leave_no_lag(broker: Broker, topic: str, tmp_path: Path) -> None:
    async def produce_transactions() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=f"tx-{topic}"
        ) as producer:
            for _ in range(3):
                async with producer.transaction():
                    await producer.send(topic, b"x", partition=0)

    asyncio.run(produce_transactions())
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    with replica(folder) as running:
        wait_until(lambda: running.get("/ready")[0] == 200 and running.committed()[0] == 6, about=running)
    assert handled(folder)[topic, 0] == [0, 2, 4]


@pytest.mark.full
def test_ten_topics_of_a_hundred_partitions_run_on_ten_workers(broker: Broker, tmp_path: Path) -> None:
    topics = [broker.create_topic(100) for _ in range(10)]
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, topics, workers=10, workerAllocationMode="static"
    )
    for topic in topics:
        produce(broker, topic, 500, partitions=100)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 5000, about=running)
        assert len(running.trigger()["partitions"]) == 1000
        assert running.stop() == 0
    assert handled(folder) == {(topic, n): list(range(5)) for topic in topics for n in range(100)}
    assert set(group_offsets(broker, f"group-{topics[0]}").values()) == {5}


@pytest.mark.full
def test_the_admin_server_tells_live_ready_and_metrics(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    produce(broker, topic, 80)
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: len(lines(folder)) == 80)
        assert running.get("/live")[0] == 200
        wait_until(lambda: handled_total(running) == 80)
        assert "headrace_committed_offset{" in running.get("/metrics")[1]


def handled_total(running: Replica) -> float:
    """The success counter, summed."""

    text = running.get("/metrics")[1]
    rows = [r for r in text.splitlines() if r.startswith("nuclio_processor_handled_events_total{")]
    return sum(float(row.split()[-1]) for row in rows if 'result="success"' in row)


@pytest.mark.full
def test_a_record_that_cannot_be_decoded_halts_its_partition_and_no_other(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, 80)
    send_undecodable(broker, topic)
    produce(broker, topic, 80)
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **DECODED)
    with replica(folder) as running:
        wait_until(lambda: f"{topic}/3 is halted at offset 10:" in running.log, about=running)
        wait_until(lambda: sum(map(len, handled(folder).values())) >= 140, about=running)
        assert running.get("/ready")[0] == 503
        committed = running.stop()
    assert committed == 0
    others = {(topic, number): list(range(20)) for number in range(8) if number != 3}
    assert {key: offsets for key, offsets in handled(folder).items() if key[1] != 3} == others
    assert handled(folder)[topic, 3] == list(range(10))
    assert group_offsets(broker, f"group-{topic}")[topic, 3] == 10


@pytest.mark.full
def test_a_header_may_have_any_bytes_as_its_name(broker: Broker, topic: str, tmp_path: Path) -> None:
    handler = """
    def handler(context, event):
        (name, value), = event.header_list
        write(name.encode(errors="surrogateescape").hex())
    """
    send_undecodable(broker, topic)
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic])
    with replica(folder) as running:
        wait_until(lambda: lines(folder), about=running)
        assert running.stop() == 0
    assert lines(folder) == [b"caf\xe9".hex()]
    assert group_offsets(broker, f"group-{topic}")[topic, 3] == 1
