"""`make storm`: records that fail, always or for a while, at random places, and what becomes of the others.

raises      a record raises 3 times, then succeeds: its partition keeps its order, the others don't wait
halt        one always raises: lag and a red readiness, until an operator skips it
letters     the same, and it becomes a dead letter, byte for byte
unwritable  the same, with a dead-letter topic that appears only later
skip        the same, and the partition goes on behind it
dies        some end their worker (exit, segfault, memory): they go, all good ones are handled in order
rebalances  ten rebalances, each of which kills the same 30 s record: it costs it no attempt

usage: poison.py [SCENARIO] [--count N] [--seed N]
"""

import asyncio
import random
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from broker import Broker
from failing_records import HEADERS, act, attempts, halted_metric, partition, problems, read, send
from kafka_records import handled, produce
from replica import Replica, lines, replica, set_spec, wait_until, write_function
from scenario import Report, main

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.dead_letter_headers import split_headers
from headrace.runtime.kafka.topics import create_topics

EACH = 100
KILLS = 10
RAISES = """
    def handler(context, event):
        write(f"{{event.topic}} {{event.shard_id}} {{event.offset}} {{event.attempt}} {{time.time()}}")
        if (event.shard_id, event.offset) == ({shard}, {offset}) and event.attempt < {good}:
            raise ValueError("poison")
"""
DIES = """
    import ctypes
    def handler(context, event):
        write(f"{{event.topic}} {{event.shard_id}} {{event.offset}} {{event.attempt}}")
        if (event.shard_id, event.offset) in {poison}:
            {dying}
"""
WAYS = {
    "exit": "os._exit(7)",
    "segfault": "ctypes.string_at(0)",
    "memory": "context.user_data.much = b'x' * (150 << 20); time.sleep(600)",
}
SLEEPS = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {event.attempt}")
        until = time.monotonic() + 30
        while time.monotonic() < until and not exists("go"):
            time.sleep(0.01)
"""
QUICK = {"maxAttempts": 3, "backoff": "20ms", "maxBackoff": "100ms"}


def anywhere() -> tuple[int, int]:
    """A partition and an offset, first and last ones more often than others."""
    return random.randrange(8), random.choice([0, EACH - 1, random.randrange(EACH), random.randrange(EACH)])


def check_order(report: Report, number: int, function: Path, topic: str, missing: int = 0) -> None:
    """Each record in its order; deliveries of one record follow each other."""
    found = {shard: [n for n, _ in groupby(offsets)] for (_, shard), offsets in handled(function).items()}
    report.add("partitions out of order", sum(o != sorted(set(o)) for o in found.values()), 0, 0, number)
    lost = 8 * EACH - missing - sum(map(len, found.values()))
    report.add("records without a delivery", lost, 0, 0, number)


def check_others(report: Report, number: int, function: Path, poison: int, each: int) -> None:
    """Nothing but the poison was delivered more than once."""
    report.add_faults("records of poison", poison, number)
    repeated = len(lines(function)) - 8 * EACH - poison * (each - 1)
    report.add("deliveries of others repeated", repeated, 0, 0, number)


def raises(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Its waits are about 2 s in all: time enough for all others."""
    topic = broker.create_topic(8)
    shard, offset = anywhere()
    function = write_function(
        folder / "f",
        RAISES.format(shard=shard, offset=offset, good=4),
        broker.bootstrap,
        [topic],
        onFailure={"maxAttempts": 4, "backoff": "300ms"},
    )
    produce(broker, topic, 8 * EACH)
    with replica(function) as running:
        wait_until(lambda: set(running.committed().values()) == {EACH}, about=running)
        running.stop()
    report.add("attempts of the record", len(attempts(function, shard, offset)), 4, 4, number)
    check_order(report, number, function, topic)
    check_others(report, number, function, 1, 4)
    rows = [line.split() for line in lines(function)]
    last = max(float(row[4]) for row in rows if row[1:3] == [str(shard), str(offset)])
    late = sum(row[1] != str(shard) and float(row[4]) > last for row in rows)
    # All, if they waited for it; some on a machine that is busy with other things.
    report.add("records of other partitions after its last attempt", late, 0, 7 * EACH / 2, number)


def _poisoned(broker: Broker, folder: Path, **policy: object) -> tuple[str, tuple[int, int], Path]:
    """A topic with one record that always raises: the topic, the record, the function."""
    topic = broker.create_topic(8)
    shard, offset = anywhere()
    function = write_function(
        folder / "f",
        RAISES.format(shard=shard, offset=offset, good=99),
        broker.bootstrap,
        [topic],
        onFailure=QUICK | policy,
    )
    produce(broker, topic, 8 * EACH)
    return topic, (shard, offset), function


def _others_done(running: Replica, shard: int) -> bool:
    return {n: c for n, c in running.committed().items() if n != shard} == {
        n: EACH for n in range(8) if n != shard
    }


def _check_done(
    running: Replica, report: Report, number: int, function: Path, place: tuple[str, int, int]
) -> None:
    topic, *at = place
    wait_until(lambda: set(running.committed().values()) == {EACH}, about=running)
    report.add("halted, by the metric, in the end", halted_metric(running, at[0]) or 0, 0, 0, number)
    running.stop()
    report.add("attempts of the record", len(attempts(function, *at)), 3, 3, number)
    check_order(report, number, function, topic)
    check_others(report, number, function, 1, 3)


def halt(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The commit stays at the record until `headrace partition skip`."""
    topic, (shard, offset), function = _poisoned(broker, folder)
    with replica(function) as running:
        line = f"{topic}/{shard} is halted at offset {offset} after 3 attempts"
        wait_until(lambda: any(line in problem for problem in problems(running)), about=running)
        wait_until(lambda: _others_done(running, shard), about=running)
        report.add("red", running.get("/ready")[0], 503, 503, number)
        report.add("halted, by the metric", halted_metric(running, shard) or 0, 1, 1, number)
        wait_until(lambda: partition(running, shard)["committed"] == offset, about=running)
        report.add("skip", act(running, "skip", f"{topic}/{shard}").returncode, 0, 0, number)
        began = time.monotonic()
        running.wait_ready()
        report.add("skip to green, s", time.monotonic() - began, 0, 5, number)
        _check_done(running, report, number, function, (topic, shard, offset))


def letters(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Odd bytes in key, value and headers, and where it comes from."""
    graves = broker.create_topic(8)
    topic, (shard, offset), function = _poisoned(broker, folder, then="deadLetter", deadLetterTopic=graves)
    bodies = [random.randbytes(random.randrange(100)) for _ in range(5)]
    handler = RAISES.format(
        shard=shard, offset=f"event.offset if event.offset >= {EACH} else {offset}", good=99
    )
    write_function(
        folder / "f",
        handler,
        broker.bootstrap,
        [topic],
        onFailure=QUICK | {"then": "deadLetter", "deadLetterTopic": graves},
    )
    times = asyncio.run(send(broker, topic, bodies, shard))
    with replica(function) as running:
        wait_until(lambda: partition(running, shard).get("committed") == EACH + 5, about=running)
        wait_until(lambda: _others_done(running, shard), about=running)
        report.add("green", running.get("/ready")[0], 200, 200, number)
        running.stop()
    first, *found = asyncio.run(read(broker, graves, 6))
    is_first = first.value == str(8 * offset + shard).encode().ljust(8, b".")
    report.add("the first letter has another body", int(not is_first), 0, 0, number)
    differing = sum(
        (letter.value, letter.key, split_headers(letter.headers)[0]) != (body, b"\xfe\x00", HEADERS)
        for letter, body in zip(found, bodies, strict=True)
    )
    report.add("letters that differ from their record", differing, 0, 0, number)
    sources = [it for letter in (first, *found) if (it := split_headers(letter.headers)[1]) is not None]
    places = [(it.topic, it.partition, it.offset, it.attempts) for it in sources]
    expected = [(topic, shard, n, 3) for n in (offset, *range(EACH, EACH + 5))]
    is_known = places == expected and [it.timestamp for it in sources[1:]] == times
    report.add_faults("records of poison", 1 + len(bodies), number)
    report.add("letters of unknown provenance", int(not is_known), 0, 0, number)


def unwritable(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The commit stays at the record until the topic is there, and nobody has to say so."""
    graves = f"dlq-{uuid.uuid4().hex[:12]}"
    topic, (shard, offset), function = _poisoned(broker, folder, then="deadLetter", deadLetterTopic=graves)
    with replica(function) as running:
        line = f"{topic}/{shard} is writing a dead letter at offset {offset}: there is no dead-letter topic"
        wait_until(lambda: any(line in problem for problem in problems(running)), about=running)
        wait_until(lambda: _others_done(running, shard), about=running)
        report.add("red", running.get("/ready")[0], 503, 503, number)
        moved = (partition(running, shard)["committed"] or 0) - offset
        report.add("commit beyond the record", moved, -EACH, 0, number)
        began = time.monotonic()
        asyncio.run(create_topics(BrokerAccess(broker.bootstrap), {graves: 1}))
        running.wait_ready()
        report.add("topic to green, s", time.monotonic() - began, 0, 10, number)
        _check_done(running, report, number, function, (topic, shard, offset))
    asyncio.run(read(broker, graves, 1))


def skip(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """The record is gone, all others are handled."""
    topic, at, function = _poisoned(broker, folder, then="skip")
    with replica(function) as running:
        _check_done(running, report, number, function, (topic, *at))


def dies(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Three records at random places, sometimes neighbours; each way in turn."""
    topic, graves = broker.create_topic(8), broker.create_topic(1)
    way = list(WAYS)[number % len(WAYS)]
    shard, offset = anywhere()
    poison = {(shard, offset), (shard, min(offset + 1, EACH - 1)), anywhere()}
    policy = random.choice([{"then": "skip"}, {"then": "deadLetter", "deadLetterTopic": graves}])
    handler = DIES.format(poison=sorted(poison), dying=WAYS[way])
    function = write_function(folder / "f", handler, broker.bootstrap, [topic], onFailure=QUICK | policy)
    set_spec(function, resources={"limits": {"memory": "96Mi"}})
    produce(broker, topic, 8 * EACH)
    began = time.monotonic()
    with replica(function) as running:
        wait_until(lambda: set(running.committed().values()) == {EACH}, about=running)
        running.stop()
    report.add(f"{way}: from start to the end of all, s", time.monotonic() - began, 0, 30, number)
    wrong = sum(attempts(function, *at) != [1, 2, 3] for at in poison)
    report.add(f"{way}: poison without exactly its 3 attempts", wrong, 0, 0, number)
    check_order(report, number, function, topic)
    check_others(report, number, function, len(poison), 3)
    if policy["then"] == "deadLetter":
        asyncio.run(read(broker, graves, len(poison)))


@contextmanager
def member(broker: Broker, group: str, topic: str, client_id: str) -> Iterator[bool]:
    """A bare consumer in the group, until the block ends; whether it has partition 0."""
    joined, leave = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    has_first = False

    async def live() -> None:
        nonlocal has_first
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            client_id=client_id,
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[RangePartitionAssignor],
        ) as consumer:
            has_first = TopicPartition(topic, 0) in consumer.assignment()
            joined.set()
            await leave.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
    thread.start()
    try:
        if not joined.wait(120):
            raise TimeoutError("the member did not join")
        yield has_first
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join()
        loop.close()


def rebalances(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """By its name a member comes before or behind the replica, and gets partition 0, or the other one."""
    topic = broker.create_topic(2)
    function = write_function(
        folder / "f", SLEEPS, broker.bootstrap, [topic], maxWaitHandlerDuringRebalance="200ms"
    )
    produce(broker, topic, 1, partitions=1)
    with replica(function) as running:
        wait_until(lambda: len(lines(function)) == 1, about=running)
        while (killed := running.log.count("was killed in")) < KILLS:
            before = len(lines(function))
            with member(broker, f"group-{topic}", topic, random.choice(["aaa", "zzz", "zzz"])) as has_first:
                if not has_first:
                    wait_until(lambda n=before: len(lines(function)) > n, about=running)  # type: ignore[misc]
                    before = len(lines(function))
            wait_until(lambda n=before: len(lines(function)) > n, about=running)  # type: ignore[misc]
        (function / "go").touch()
        wait_until(lambda: running.committed().get(0) == 1, about=running)
        running.stop()
    report.add("kills of the record by the runtime", killed, KILLS, KILLS + 1, number)
    report.add_faults("rebalances", killed, number)
    report.add("deliveries of the record beside them", len(lines(function)) - killed, 1, 1, number)
    report.add("attempt of the last delivery", attempts(function, 0, 0)[-1], 1, 1, number)
    report.add(
        "attempts that a kill has cost", sum(attempts(function, 0, 0)) - len(lines(function)), 0, 0, number
    )


SCENARIOS = {
    "raises": raises,
    "halt": halt,
    "letters": letters,
    "unwritable": unwritable,
    "skip": skip,
    "dies": dies,
    "rebalances": rebalances,
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
