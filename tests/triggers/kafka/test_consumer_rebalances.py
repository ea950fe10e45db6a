"""groupProtocol consumer, with running replicas on a real broker: what moves stops, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from joining_replicas import WRITES, only_once, starts
from kafka_records import group_offsets, produce
from librdkafka_member import librdkafka_member
from replica import frozen, lines, replica, wait_until, write_function

CONSUMER: dict[str, Any] = {"groupProtocol": "consumer"}
# Stays in the first record of each partition until that one may go on.
EACH_WAITS = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {os.getppid()}")
        if event.offset == 0:
            wait_for(f"go-{event.shard_id}")
        write(f"{event.topic} {event.shard_id} {event.offset}", "ended")
"""


@pytest.mark.full
def test_replicas_share_a_topic_and_commit_to_its_end(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **CONSUMER)
    produce(broker, topic, 40)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) >= 40, about=first)
        with replica(folder, name="-b") as second:
            wait_until(lambda: len(second.trigger()["partitions"]) == 4, about=second)
            about = first.trigger()
            assert (about["groupProtocol"], about["memberEpoch"]) == ("consumer", 2)
            produce(broker, topic, 40)
            wait_until(lambda: len(lines(folder)) >= 80, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 80)
    assert len({start[3] for start in starts(folder)}) == 2
    assert group_offsets(broker, f"group-{topic}") == {(topic, number): 10 for number in range(8)}


def test_what_stays_goes_on_while_what_moves_is_drained(broker: Broker, topic: str, tmp_path: Path) -> None:
    """All eight are in their first record. The four that stay end theirs, and go on, before the others do."""
    folder = write_function(
        tmp_path / "f",
        EACH_WAITS,
        broker.bootstrap,
        [topic],
        workers=8,
        maxWaitHandlerDuringRebalance="40s",
        **CONSUMER,
    )
    produce(broker, topic, 40)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 8, about=first)
        with replica(folder, name="-b") as second:
            first.logged("revoked:")
            staying = {row["partition"] for row in first.trigger()["partitions"]}
            assert len(staying) == 4
            for number in staying:
                (folder / f"go-{number}").touch()
            wait_until(lambda: len(lines(folder)) == 8 + 4 * 4, about=first)
            assert not second.trigger()["partitions"]
            for number in set(range(8)) - staying:
                (folder / f"go-{number}").touch()
            wait_until(lambda: len(lines(folder)) == 40, about=second)
            wait_until(lambda: len(second.trigger()["lastMove"]["from"]) == 4, about=second)
            wait_until(lambda: len(first.trigger()["lastMove"]["to"]) == 4, about=first)
            (giver,), (taker,) = (
                set(it.trigger()["lastMove"][way].values()) for it, way in ((second, "from"), (first, "to"))
            )
            assert giver != taker
            first.logged(f"moved to {taker}")
            second.logged(f"moved from {giver}")
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 40)
    assert "was killed" not in first.log + second.log
    assert group_offsets(broker, f"group-{topic}") == {(topic, number): 5 for number in range(8)}


@pytest.mark.full
def test_what_a_killed_replica_had_goes_on_elsewhere(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **CONSUMER)
    with replica(folder, name="-a") as first, replica(folder, name="-b") as second:
        wait_until(lambda: len(second.trigger()["partitions"]) == 4, about=second)
        wait_until(lambda: len(first.trigger()["partitions"]) == 4, about=first)
        first.kill()
        produce(broker, topic, 80)
        wait_until(lambda: len(lines(folder)) == 80, about=second)
        assert second.stop() == 0
    assert only_once(folder, 80)


@pytest.mark.full
def test_a_replica_that_was_frozen_past_its_session_joins_anew(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **CONSUMER)
    with replica(folder, name="-a") as first, replica(folder, name="-b") as second:
        wait_until(lambda: len(second.trigger()["partitions"]) == 4, about=second)
        with frozen(first):
            wait_until(lambda: len(second.trigger()["partitions"]) == 8, about=second)
        first.logged("has gone on without this member")
        wait_until(lambda: len(first.trigger()["partitions"]) == 4, about=first)
        produce(broker, topic, 80)
        wait_until(lambda: len(lines(folder)) == 80, about=second)
        assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 80)


@pytest.mark.full
def test_a_static_replica_that_comes_back_moves_nothing(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], groupInstanceId="box-$BOX", **CONSUMER
    )
    one, two = {"BOX": "1"}, {"BOX": "2"}
    with replica(folder, name="-b", variables=two) as second:
        with replica(folder, name="-a", variables=one) as first:
            for running in (first, second):
                wait_until(lambda it=running: len(it.trigger()["partitions"]) == 4, about=running)  # type: ignore[misc]
            had = {row["partition"] for row in first.trigger()["partitions"]}
            assert first.stop() == 0
        moves = second.log.count(" go, ")
        with replica(folder, name="-c", variables=one) as again:
            wait_until(lambda: len(again.trigger()["partitions"]) == 4, about=again)
            assert {row["partition"] for row in again.trigger()["partitions"]} == had
            assert second.log.count(" go, ") == moves
            assert (again.stop(), second.stop()) == (0, 0)


@pytest.mark.full
def test_a_topic_pattern_reads_what_comes(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(
        tmp_path / "f",
        WRITES,
        broker.bootstrap,
        [topic],
        topicPattern=f"{topic}-.*",
        topicRefresh="1s",
        pollInterval="1s",
        **CONSUMER,
    )
    with replica(folder) as running:
        running.wait_ready()
        broker.create(f"{topic}-more", 2)
        wait_until(lambda: len(running.trigger()["partitions"]) == 10, about=running)
        produce(broker, f"{topic}-more", 4, 2)
        wait_until(lambda: len(lines(folder)) == 4, about=running)
        assert running.stop() == 0


@pytest.mark.full
def test_a_group_goes_from_classic_to_consumer_replica_by_replica(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    old = write_function(tmp_path / "old", WRITES, broker.bootstrap, [topic])
    new = write_function(tmp_path / "new", WRITES, broker.bootstrap, [topic], **CONSUMER)
    with replica(old, name="-a") as first, replica(old, name="-b") as second:
        for running in (first, second):
            wait_until(lambda it=running: len(it.trigger()["partitions"]) == 4, about=running)  # type: ignore[misc]
        produce(broker, topic, 40)
        wait_until(lambda: len(lines(old)) == 40, about=first)
        assert first.stop() == 0
        with replica(new, name="-a") as third:
            wait_until(lambda: len(third.trigger()["partitions"]) == 4, about=third)
            wait_until(lambda: len(second.trigger()["partitions"]) == 4, about=second)
            produce(broker, topic, 40)
            wait_until(lambda: len(lines(old)) + len(lines(new)) == 80, about=third)
            assert second.stop() == 0
            with replica(new, name="-b") as fourth:
                wait_until(lambda: len(fourth.trigger()["partitions"]) == 4, about=fourth)
                produce(broker, topic, 40)
                wait_until(lambda: len(lines(old)) + len(lines(new)) == 120, about=fourth)
                assert (fourth.stop(), third.stop()) == (0, 0)
    assert group_offsets(broker, f"group-{topic}") == {(topic, number): 15 for number in range(8)}


def test_members_of_another_client_come_and_go_in_the_same_group(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Nothing is lost, and as all of them leave in peace, nothing is handled twice."""
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], **CONSUMER)
    group, log, sent = f"group-{topic}", folder / "log", 0
    with replica(folder, name="-a") as ours:
        wait_until(lambda: len(ours.trigger()["partitions"]) == 8, about=ours)
        for number in range(3):
            with librdkafka_member(broker, group, topic, log, f"other-{number}") as other:
                wait_until(lambda it=other: it.count == 4, about=ours)  # type: ignore[misc]
                wait_until(lambda: len(ours.trigger()["partitions"]) == 4, about=ours)
                produce(broker, topic, 80)
                sent += 80
                wait_until(lambda count=sent: len(lines(folder)) >= count, about=ours)  # type: ignore[misc]
            produce(broker, topic, 80)
            sent += 80
            wait_until(lambda count=sent: len(lines(folder)) >= count, about=ours)  # type: ignore[misc]
        assert ours.stop() == 0
    assert only_once(folder, sent)
    assert {name for *_, name in starts(folder)} >= {"other-0", "other-1", "other-2"}
    assert group_offsets(broker, group) == {(topic, number): sent // 8 for number in range(8)}
