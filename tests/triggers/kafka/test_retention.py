"""Retention that overtakes a partition: what was fetched is kept, what wasn't is said. On a real broker."""

import re
from pathlib import Path

import pytest
from broker import Broker
from kafka_records import group_offsets, handled, produce, truncate
from replica import frozen, lines, replica, wait_until, write_function

COUNT, KEPT_FROM = 1000, 950
WAITS_AT_0 = """
    def handler(context, event):
        if (event.shard_id, event.offset) == (0, 0):
            write("in", "reached")
            wait_for("go")
        write(f"{event.topic} {event.shard_id} {event.offset}")
"""


@pytest.mark.full
@pytest.mark.usefixtures("either_path")
def test_what_was_fetched_is_handled_though_retention_has_overtaken_the_next_fetch(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create_topic(2)
    produce(broker, topic, 2 * COUNT, partitions=2, size=4000)
    folder = write_function(tmp_path / "f", WAITS_AT_0, broker.bootstrap, [topic])
    with replica(folder) as running:
        wait_until(lambda: lines(folder, "reached"), 90, about=running)
        wait_until(lambda: running.committed()[1] == COUNT, 90, about=running)
        (fetched,) = [row["position"] for row in running.trigger()["partitions"] if row["partition"] == 0]
        assert 0 < fetched < KEPT_FROM
        truncate(broker, topic, 0, before=KEPT_FROM)
        (folder / "go").touch()
        wait_until(lambda: running.committed()[0] == COUNT, 90, about=running)
        metrics = running.get("/metrics")[1]
        assert running.stop() == 0
    offsets = handled(folder)[topic, 0]
    end = len(offsets) - (COUNT - KEPT_FROM)
    assert offsets == [*range(end), *range(KEPT_FROM, COUNT)]
    assert end >= fetched
    assert f"{KEPT_FROM - end} offsets, {end} to {KEPT_FROM - 1}, were deleted" in running.log
    (deleted,) = re.findall(r"headrace_deleted_unread_total\{.*\} (.+)", metrics)
    assert float(deleted) == KEPT_FROM - end
    assert group_offsets(broker, f"group-{topic}") == {(topic, 0): COUNT, (topic, 1): COUNT}


@pytest.mark.full
def test_a_long_record_is_not_killed_where_retention_overtakes_its_partition(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create_topic(2)
    folder = write_function(
        tmp_path / "f",
        WAITS_AT_0,
        broker.bootstrap,
        [topic],
        partitions=[0],
        maxWaitHandlerDuringRebalance="1s",
        sessionTimeout="30s",
    )
    produce(broker, topic, 20, partitions=2)
    with replica(folder) as running:
        wait_until(lambda: lines(folder, "reached"), 90, about=running)
        pids = running.worker_pids()
        with frozen(running):  # or all of it would be fetched at once
            produce(broker, topic, 2 * COUNT, partitions=2, size=4000)
            truncate(broker, topic, 0, before=COUNT)
        running.logged("is out of range", seconds=90)
        (folder / "go").touch()
        wait_until(lambda: running.committed()[0] == COUNT + 10, 90, about=running)
        assert running.worker_pids() == pids
        assert running.stop() == 0
    assert handled(folder)[topic, 0][:10] == list(range(10))
