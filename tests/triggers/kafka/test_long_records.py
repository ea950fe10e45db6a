"""Records that take long beside many that don't: order, overlap, heartbeats."""

import re
import signal
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from broker import Broker
from kafka_records import produce
from replica import replica, wait_until, write_function

RECORDS = 100_000


@pytest.mark.full
def test_pool_keeps_order_without_overlap_while_one_partition_is_in_a_long_record(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        spans = open(FOLDER / f"{os.getpid()}.spans", "a", buffering=1)
        def handler(context, event):
            began = time.monotonic_ns()
            if (event.shard_id, event.offset) == (0, 1000):
                time.sleep(5)
            spans.write(f"{event.shard_id} {event.offset} {began} {time.monotonic_ns()}\\n")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], workers=3)
    produce(broker, topic, RECORDS)

    def spans() -> list[list[int]]:
        found = (path.read_text().splitlines() for path in folder.glob("*.spans"))
        return [list(map(int, line.split())) for lines in found for line in lines]

    with replica(folder) as running:
        wait_until(lambda: len(spans()) >= RECORDS, about=running)
        assert running.stop() == 0
    by_partition: dict[int, list[list[int]]] = {}
    for partition, *span in sorted(spans(), key=lambda span: span[2]):
        by_partition.setdefault(partition, []).append(span)
    for found in by_partition.values():
        assert [offset for offset, _, _ in found] == list(range(RECORDS // 8))
        assert all(end <= began for (_, _, end), (_, began, _) in pairwise(found))
    (slow,) = [span for span in by_partition[0] if span[0] == 1000]
    others_end = max(end for number in range(1, 8) for _, _, end in by_partition[number])
    assert others_end < slow[2], "the other partitions were done before the long record was"


@pytest.mark.full
def test_a_handler_that_computes_for_a_minute_misses_no_heartbeat(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            until = time.monotonic() + 60
            while time.monotonic() < until:
                sum(range(1000))
            write(event.offset)
    """
    folder = write_function(
        tmp_path / "f", handler, broker.bootstrap, [topic], sessionTimeout="6s", heartbeatInterval="2s"
    )
    with replica(folder, "--log-level", "trace") as running:
        running.wait_ready()
        generation = running.trigger()["generation"]
        produce(broker, topic, 1)
        wait_until((folder / "log").exists, about=running)
        assert running.trigger()["generation"] == generation
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(120)
        found = re.findall(r"^(\S+) DEBUG +Received successful heartbeat", running.log, re.MULTILINE)
    beats = [datetime.strptime(clock, "%H:%M:%S.%f") for clock in found]  # noqa: DTZ007
    assert len(beats) >= 28
    assert max((later - earlier).total_seconds() for earlier, later in pairwise(beats)) < 6
