"""`make storm`: k5. A process ends by kill -9 at each place where it might matter, and nothing is lost.

before-handler, after-handler, before-ack, after-ack                          in a worker
before-commit, after-commit, before-dead-letter, after-dead-letter            in a processor

usage: failpoints.py [FAILPOINT] [--count N] [--seed N]
"""

import asyncio
import os
import random
import sys
import time
from functools import partial
from pathlib import Path
from unittest import mock

import sabotage
from broker import Broker
from history import RECORDER, RecordId
from judge import Allowed
from load import WORKERS, Fault, Load
from replica import wait_until
from sabotage import FAILPOINTS, PROCESSOR
from scenario import Report, Scenario, main

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.dead_letter_reader import opened

RECORDS = 400
PARTITIONS = 4
POISON = 7  # an offset of every partition
HANDLER = f"""
{RECORDER}
    import nuclio_sdk

    async def handler(context, event):
        note("START", event)
        if event.offset == {POISON}:
            raise ValueError("poison")
        await asyncio.sleep(0.002)
        note("END", event)
        if IS_EXPLICIT:
            await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
"""


def k5(name: str, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """One kill. Who started the processor starts it again; a worker is replaced."""
    is_explicit = name.endswith("-ack")
    letters = broker.create_topic(1)
    died = folder / "died"
    # Commits come every second, and when a record fails; dead letters once for each partition.
    count = random.randint(1, 4 if FAILPOINTS[name][0] == PROCESSOR else RECORDS // 4)
    load = Load(
        broker,
        folder,
        RECORDS,
        partitions=PARTITIONS,
        handler=HANDLER.replace("IS_EXPLICIT", str(is_explicit)),
        fields={"explicitAckMode": "explicitOnly"} if is_explicit else {},
        workerAllocationMode="static",
        onFailure={"maxAttempts": 2, "backoff": "100ms", "then": "deadLetter", "deadLetterTopic": letters},
    )
    (folder / "sitecustomize.py").write_bytes(Path(sabotage.__file__).read_bytes())
    changes = {"PYTHONPATH": str(folder), "HEADRACE_FAILPOINT": f"{name} {count} {died}"}
    changes["HEADRACE_PASS_ENV"] = "HEADRACE_FAILPOINT"  # workers have some too
    with load, mock.patch.dict(os.environ, changes):
        running = load.start()
        load.produce()
        wait_until(died.exists, about=running)
        is_processor = FAILPOINTS[name][0] == PROCESSOR
        if is_processor:
            running.process.wait(120)
        fault = Fault(running.process.pid, time.monotonic_ns())
        if is_processor:
            load.replicas.remove(running)
            load.start()
        load.finish()
    poison = {(load.topic, partition, POISON) for partition in range(PARTITIONS)}
    found = read_letters(broker, letters)
    report.add_faults("kills", 1, number)
    report.add("poison without a dead letter", len(poison - {record for record, _ in found}), 0, 0, number)
    # Those that were written before the kill may not have been committed yet.
    written = max(0, count - name.startswith("before")) if name.endswith("letter") else PARTITIONS
    report.add("dead letters written twice", len(found) - len(dict(found)), 0, written, number)
    allowed = Allowed(load.may_repeat([fault]), cut_off=WORKERS)
    if not is_processor:  # wherever a worker ends, it was in one record, and may not have said so
        allowed = Allowed(repeats=1, cut_off=1, attempts=1)
    load.check(report, number, allowed, given_up=dict(reversed(found)))


def read_letters(broker: Broker, letters: str) -> list[tuple[RecordId, int]]:
    """Which records they are of, and when they were written, on the history's clock. The oldest first."""

    async def read() -> list[tuple[RecordId, int]]:
        async with opened(BrokerAccess(broker.bootstrap), letters) as topic:
            found = [(it.provenance, it.record.timestamp / 1000) for it in await topic.newest(100)]
        since_boot = time.time() - time.monotonic()
        return [
            ((it.topic, it.partition, it.offset), int((at - since_boot) * 1e9))
            for it, at in found
            if it is not None
        ]

    return asyncio.run(read())


SCENARIOS: dict[str, Scenario] = {name: partial(k5, name) for name in FAILPOINTS}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
