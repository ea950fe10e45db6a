"""Explicit acks while partitions move from one running replica to another."""

from pathlib import Path

import pytest
from broker import Broker
from joining_replicas import explicit, only_once, starts
from kafka_records import group_offsets, handled, produce
from replica import lines, replica, wait_until, write_function

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


@pytest.mark.full
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
        maxWaitHandlerDuringRebalance="4s",
    )
    explicit(folder, "enable")
    produce(broker, topic, 16)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 2, about=first)
        acked = [(name, int(partition)) for name, partition, _ in starts(folder)]
        with replica(folder, name="-b") as second:
            killed = first.logged("was killed in")
            (folder / "go").touch()
            second.logged("assigned:")
            offsets = group_offsets(broker, f"group-{topic}")
            assert all(offsets[partition] >= 1 for partition in acked)
            assert all(float(when) < killed for when in lines(folder, "drained")[:2])
            wait_until(lambda: len(lines(folder)) >= 16, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    assert only_once(folder, 16)


@pytest.mark.full
def test_acks_count_until_the_wait_for_them_ends_and_no_longer(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", ACKS_LATER, broker.bootstrap, [topic], workerAllocationMode="static"
    )
    explicit(folder, waitExplicitAckDuringRebalanceTimeout="6s")
    produce(broker, topic, 16)
    with replica(folder, name="-a") as first:
        wait_until(lambda: len(lines(folder)) == 16, about=first)
        with replica(folder, name="-b") as second:
            began = first.logged("revoked:")
            wait_until(lambda: len(lines(folder, "drained")) == 2, about=first)
            (folder / "soon").touch()
            assert second.logged("assigned:") - began > 5.9  # offsets 1 stay open
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


@pytest.mark.full
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
            assert second.logged("assigned:") - began < 20
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
