"""`make storm`: batches that open to more than the memory that there is, in every codec and mode.

p2-bombs  good records between bombs of 100 to 500 times maxBatchBytes; each process may have 400 MiB of data.
          The replica lives, no worker dies, good records flow, and each bomb ends by its policy

usage: bombs.py [SCENARIO] [--count N] [--seed N]
"""

import asyncio
import random
import sys
import uuid
from functools import cache, partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from broker import Broker
from chunks import Written, batch, compressed
from forked import PROGRAM
from kafka_records import group_offsets
from records import wide_topic
from replica import Replica, lines, replica, set_trigger, wait_until, write_function
from scenario import Report, Scenario, main

MIB = 1 << 20
LIMIT = MIB  # maxBatchBytes
DATA_MIB = 400  # of a process; a worker that idles has about 60
SIZES = {"gzip": (1, 500 * MIB), "snappy": (2, 100 * MIB), "lz4": (3, 500 * MIB), "zstd": (4, 500 * MIB)}
MODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "in workers": ({}, {}),
    "fetchMax": ({"fetchMax": 1 << 30}, {}),
    "read_committed": ({"isolationLevel": "read_committed"}, {}),
    "batch": ({}, {"batch": {"mode": "enable", "batchSize": 4, "timeout": "100ms"}}),
}
WRITES = """
    def handler(context, event):
        for one in event if isinstance(event, list) else [event]:
            write(one.offset)
"""


@cache
def bomb(codec: str) -> bytes:
    """A batch of one record of zeros."""
    number, size = SIZES[codec]
    return compressed(batch(0, [Written(value=bytes(size))]), number)


def bombs(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """All modes, each with all codecs in any order; then what ends in a dead letter elsewhere."""
    for mode, (attributes, fields) in MODES.items():
        topic = asyncio.run(wide_topic(broker))
        codecs = random.sample(list(SIZES), len(SIZES))
        bad = asyncio.run(send(broker, topic, codecs))
        function = write_function(
            folder / uuid.uuid4().hex,
            WRITES,
            broker.bootstrap,
            [topic],
            maxBatchBytes=LIMIT,
            onFailure={"maxAttempts": 2, "backoff": "10ms", "then": "skip"},
            **attributes,
        )
        set_trigger(function, **fields)
        with replica(function, program=limited()) as running:
            running.logged("assigned: ")  # then there is such a group
            wait_until(partial(is_committed, broker, topic, 2 * len(codecs) + 1), about=running)
            report.add(f"most memory, {mode}, MiB", most_mib(running), 0, DATA_MIB / 2, number)
            restarts = sum(worker["restarts"] for worker in running.trigger()["workers"])
            report.add("workers that died", restarts, 0, 0, number)
            report.add("exit code", running.stop(), 0, 0, number)
        skipped = {offset for offset in bad if f"offset {offset} is skipped" in running.log}
        report.add("bombs that did not end by their policy", len(bad - skipped), 0, 0, number)
        wanted = sorted(set(range(2 * len(codecs) + 1)) - bad)
        handled = [int(line) for line in lines(function)]
        report.add("good records not in order, once", handled != wanted, 0, 0, number)
        report.add_faults("bombs", len(bad), number)


def is_committed(broker: Broker, topic: str, end: int) -> bool:
    return group_offsets(broker, f"group-{topic}") == {(topic, 0): end}


def limited() -> tuple[str, ...]:
    """What all of its processes inherit: an allocation beyond it fails."""
    return ("prlimit", f"--data={DATA_MIB * MIB}", *PROGRAM)


def most_mib(running: Replica) -> float:
    """Of its processor and workers, the one that has had most."""
    pids = [running.process.pid, *running.worker_pids()]
    found = [Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0] for pid in pids]
    return max(int(kib) / 1024 for kib in found)


async def send(broker: Broker, topic: str, codecs: list[str]) -> set[int]:
    """A good record, then a bomb and a good record for each; the bombs' offsets."""
    bad = set()
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=12 * MIB) as producer:
        await producer.send_and_wait(topic, b"good", partition=0)
        for codec in codecs:
            made = producer.create_batch()
            made.append(key=None, value=b"", timestamp=None)
            made.close()
            made._buffer = bytearray(await asyncio.to_thread(bomb, codec))
            sent = await (await producer.send_batch(made, topic, partition=0))
            bad.add(sent.offset)
            await producer.send_and_wait(topic, b"good", partition=0)
    return bad


SCENARIOS: dict[str, Scenario] = {"p2-bombs": bombs}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
