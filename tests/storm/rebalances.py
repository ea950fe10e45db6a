"""`make storm`: a second replica joins, again and again, and how long each step took.

wait    a handler outsleeps maxWaitHandlerDuringRebalance: the kill is on time, and its record goes on
finish  a handler of 30 s has 40 s: the group waits for it, and nothing is handled twice
join    an idle group: from the newcomer's connection to its first handled record
long    handlers of 15 s have 20 s, and the broker shares out: a join settles, none is aborted or starts twice
others  librdkafka's members join and leave, and replicas do, in one group that the broker shares out
drain   a handler computes: its drain callback runs at once, and what the callback acks is committed

usage: rebalances.py [wait|finish|long|others|join|drain] [--count N] [--seconds LOAD]
"""

import asyncio
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from broker import Broker
from kafka_records import group_offsets, handled, produce
from librdkafka_member import librdkafka_member
from replica import Replica, lines, replica, set_trigger, wait_until, write_function
from scenario import Report, main

WAIT_SECONDS = 2.0
HANDLER_SECONDS = 30
LONG_SECONDS = 15
# Says when it began, and in which processor; and when it has ended.
SLEEPS = f"""
    def handler(context, event):
        record = f"{{event.topic}} {{event.shard_id}} {{event.offset}}"
        write(f"{{record}} {{time.time()}} {{os.getppid()}}")
        if not exists("go"):
            time.sleep({HANDLER_SECONDS})
            write(f"{{record}} {{time.time()}}", "ended")
"""
WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {time.time()} {os.getppid()}")
"""
COMPUTES = """
    import nuclio_sdk
    current = []

    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {time.time()} {os.getppid()}")
        current[:] = [nuclio_sdk.QualifiedOffset.from_event(event)]
        end = time.monotonic() + (0 if exists("go") else 10)
        while time.monotonic() < end:
            sum(range(1000))

    def init_context(context):
        async def on_drain():
            write(time.time(), "drained")
            for offset in current:
                await context.platform.explicit_ack(offset)
        context.platform.set_drain_callback(on_drain)
"""


def wait(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The handler gets its time to the millisecond, and the next owner goes on at once."""
    topic = broker.create_topic(8)
    function = write_function(
        folder / "f",
        SLEEPS,
        broker.bootstrap,
        [topic],
        maxWaitHandlerDuringRebalance=f"{WAIT_SECONDS:g}s",
    )
    produce(broker, topic, 8)
    with replica(function, name="-a") as first:
        wait_until(lambda: len(lines(function)) == 2, about=first)
        with replica(function, name="-b") as second:
            began = first.logged("revoked:")
            (function / "go").touch()
            killed = first.logged("was killed in")
            wait_until(lambda: len(lines(function)) >= 10, about=second)
            report.add("revoke to kill, s", killed - began, WAIT_SECONDS - 0.1, WAIT_SECONDS + 0.1, number)
            owned = {
                str(running.process.pid): running.logged("assigned:", began) for running in (first, second)
            }
            repeated = deliveries(function)
            for topic_, partition, offset, when, owner in repeated[2:]:
                if any([topic_, partition, offset] == before[:3] for before in repeated[:2]):
                    report.add("kill to the record's next start, s", float(when) - killed, 0, 1, number)
                    report.add("assignment to that, s", float(when) - owned[owner], -0.01, 1, number)
    report.add_faults("rebalances", 1, number)
    report.add("records handled", len(lines(function)), 10, 10, number)


def finish(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The newcomer gets its partitions when the handlers have ended, and not before."""
    topic = broker.create_topic(8)
    function = write_function(
        folder / "f",
        SLEEPS,
        broker.bootstrap,
        [topic],
        maxWaitHandlerDuringRebalance="40s",
    )
    produce(broker, topic, 8)
    with replica(function, name="-a") as first:
        wait_until(lambda: len(lines(function)) == 2, about=first)
        with replica(function, name="-b") as second:
            began = first.logged("revoked:")
            (function / "go").touch()
            assigned = second.logged("assigned:")
            ended = [float(line.split()[3]) for line in lines(function, "ended")]
            report.add("handlers that finished", len(ended), 2, 2, number)
            report.add("the group waited, s", assigned - began, 20, HANDLER_SECONDS, number)
            report.add("end of the last handler to the assignment, s", assigned - max(ended), 0, 1, number)
            wait_until(lambda: len(lines(function)) >= 8, about=second)
            assert (second.stop(), first.stop()) == (0, 0)
    report.add_faults("rebalances", 1, number)
    report.add("records handled twice", len(lines(function)) - 8, 0, 0, number)


def long(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Two become three, in the middle of everything."""
    topic = broker.create_topic(6)
    function = write_function(
        folder / "f",
        f"""
            def handler(context, event):
                write(f"{{event.topic}} {{event.shard_id}} {{event.offset}}")
                time.sleep({LONG_SECONDS})
                write(event.offset, "ended")
        """,
        broker.bootstrap,
        [topic],
        workers=6,
        groupProtocol="consumer",
        maxWaitHandlerDuringRebalance="20s",
    )
    with replica(function, name="-a") as first, replica(function, name="-b") as second:
        wait_until(lambda: len(first.trigger()["partitions"]) == len(second.trigger()["partitions"]) == 3)
        produce(broker, topic, 18, 6)
        wait_until(lambda: len(lines(function)) == 6, about=first)
        with replica(function, name="-c") as third:
            joined = third.logged("connected to")
            wait_until(lambda: len(third.trigger()["partitions"]) == 2, about=third)
            given = third.logged(" come,")
            report.add("a newcomer's partitions, s", given - joined, 0, LONG_SECONDS + 3, number)
            wait_until(lambda: len(lines(function, "ended")) >= 18, about=third)
            codes = (third.stop(), second.stop(), first.stop())
            report.add("exit codes", sum(codes), 0, 0, number)
            killed = sum(it.log.count("was killed") for it in (first, second, third))
            report.add("handlers that were aborted", killed, 0, 0, number)
    report.add_faults("joins", 1, number)
    report.add("records handled twice", len(lines(function)) - 18, 0, 0, number)


def others(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """All leave in peace, so nothing is handled twice."""
    topic = broker.create_topic(8)
    function = write_function(folder / "f", WRITES, broker.bootstrap, [topic], groupProtocol="consumer")
    group, log = f"group-{topic}", function / "log"
    joins, leaves, sent, end = 0, 0, 0, time.monotonic() + report.seconds
    with ExitStack() as stack:
        first = stack.enter_context(replica(function, name="-0"))
        first.wait_ready()
        running: list[ExitStack] = []
        while time.monotonic() < end:
            produce(broker, topic, 80)
            sent += 80
            if running and (len(running) == 3 or random.random() < 0.4):
                running.pop(random.randrange(len(running))).close()
                leaves += 1
            else:
                joins += 1
                one = stack.enter_context(ExitStack())
                if random.random() < 0.6:
                    one.enter_context(librdkafka_member(broker, group, topic, log, f"other-{joins}"))
                else:
                    mine = one.enter_context(replica(function, name=f"-{joins}")).wait_ready()
                    one.callback(mine.stop)
                running.append(one)
            time.sleep(random.uniform(0.2, 3))
        wait_until(lambda: sum(len(set(it)) for it in handled(function).values()) >= sent, about=first)
        for one in running:
            one.close()
        report.add("exit code", first.stop(), 0, 0, number)
    report.add_faults("joins", joins, number)
    report.add_faults("leaves", leaves, number)
    report.add("records handled", sent, 1, 1e9, number)
    report.add("records handled twice", len(lines(function)) - sent, 0, 0, number)
    disorder = sum(offsets != sorted(offsets) for offsets in handled(function).values())
    report.add("partitions out of order", disorder, 0, 0, number)
    lag = sum(sent // 8 - offset for offset in group_offsets(broker, group).values())
    report.add("records not committed", lag, 0, 0, number)


def join(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Records trickle in all the time; none is handled twice."""
    topic = broker.create_topic(8)
    function = write_function(folder / "f", WRITES, broker.bootstrap, [topic])
    sent = 0
    with replica(function, name="-a") as first:
        first.wait_ready()
        with replica(function, name="-b") as second:
            joined = second.logged("connected to")
            while not (found := handled_by(function, second)):
                produce(broker, topic, 8)
                sent += 1
            report.add("connection to the first handled record, s", min(found) - joined, 0, 1, number)
            wait_until(lambda: len(lines(function)) >= 8 * sent, about=second)
            second.stop()
        first.stop()
    repeated = len(lines(function)) - sum(len(set(offsets)) for offsets in handled(function).values())
    report.add_faults("rebalances", 1, number)
    report.add("records handled twice", repeated, 0, 0, number)


def drain(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """A handler that never gives up the interpreter by itself; nothing but its callback acks its record."""
    topic = broker.create_topic(8)
    function = write_function(
        folder / "f",
        COMPUTES,
        broker.bootstrap,
        [topic],
        workerAllocationMode="static",
        maxWaitHandlerDuringRebalance="1s",
    )
    set_trigger(function, explicitAckMode="explicitOnly")
    produce(broker, topic, 16)
    with replica(function, name="-a") as first:
        wait_until(lambda: len(lines(function)) == 2, about=first)
        with replica(function, name="-b") as second:
            began = first.logged("revoked:")
            (function / "go").touch()
            second.logged("assigned:")
            offsets = group_offsets(broker, f"group-{topic}")
            interrupted = [line.split() for line in lines(function)[:2]]
            wait_until(lambda: len(lines(function)) >= 16, about=second)
            for called in lines(function, "drained")[:2]:
                report.add("revoke to the callback, s", float(called) - began, 0, 0.2, number)
    for name, partition, _, *_ in interrupted:
        report.add("commit of a record that its callback acked", offsets[name, int(partition)], 1, 1, number)
    repeated = len(lines(function)) - sum(len(set(offsets)) for offsets in handled(function).values())
    report.add_faults("rebalances", 1, number)
    report.add("records handled twice", repeated, 0, 0, number)


def deliveries(function: Path) -> list[list[str]]:
    """Topic, partition, offset, time and processor of each start of a handler."""
    return [line.split() for line in lines(function)]


def handled_by(function: Path, running: Replica) -> list[float]:
    """When the workers of a processor handled records."""
    return [float(row[3]) for row in deliveries(function) if row[4] == str(running.process.pid)]


if __name__ == "__main__":
    started = time.monotonic()
    scenarios = {"wait": wait, "finish": finish, "long": long, "others": others, "join": join, "drain": drain}
    code = asyncio.run(main(scenarios, __doc__ or ""))
    print(f"{time.monotonic() - started:.0f} s in all")
    sys.exit(code)
