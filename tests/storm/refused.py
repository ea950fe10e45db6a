"""`make storm`: a tenth of all records produce what a topic refuses, while workers and replicas are killed.

Half as many have their handler raise. All of these end as dead letters, and all others have their message.

refused-plain     by context.produce, with nothing else set
refused-result    the handler returns it, for resultTopic
refused-explicit  explicitOnly, static: records are acked up to 0.3 s after their handler
refused-key, refused-none   with these orderings; three keys in a partition
refused-once      exactlyOnce
refused-once-batches, refused-batches   in batches, with exactlyOnce and without
refused-once-key  exactlyOnce, ordering key
refused-once-cumulative     exactlyOnce, and each ack means all below it, too
refused-outputs, refused-once-outputs   to a cluster of spec.outputs

usage: refused.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import random
import sys
import time
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from broker import Broker
from history import RECORDER, RecordId
from judge import STALL_SECONDS, Allowed
from load import Load
from output_topic import read_letters, read_results, watched
from refusals import Refusals, judge_refusals
from replica import set_spec
from results import Outcome, judge_results
from scenario import Report, Scenario, main
from stalls import stalls_of
from ways import IN_ORDER, Way
from weather import Weather

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.topics import create_topics

PARTITIONS, REPLICAS, WORKERS = 8, 2, 2
ATTEMPTS = 2
LIMIT_BYTES, TOO_LONG_BYTES = 20_000, 50_000
FINISH_SECONDS = 60.0
OPEN_ACKS = 100  # of a worker, at most
SIZE = 8
_TOLD = f"""
{RECORDER}
    import random, zlib
    import nuclio_sdk

    def fate(event):
        return zlib.crc32(f"{{event.shard_id}} {{event.offset}}".encode()) % 20

    def begin(event):
        note("START", event)
        if fate(event) == 2:
            note("END", event)
            raise ValueError("poison")

    def message(event):
        return f"{{event.shard_id}} {{event.offset}} ".ljust({TOO_LONG_BYTES} if fate(event) < 2 else 100)
"""
PRODUCES = f"""{_TOLD}
    def handler(context, event):
        begin(event)
        context.produce(OUT, message(event))
        time.sleep(0.003)
        note("END", event)
"""
RETURNS = f"""{_TOLD}
    def handler(context, event):
        begin(event)
        time.sleep(0.003)
        note("END", event)
        return message(event)
"""
ACKS_LATE = f"""{_TOLD}
    async def handler(context, event):
        begin(event)
        context.produce(OUT, message(event))
        await asyncio.sleep(0.003)
        note("END", event)
        context.create_task(ack(context, event), event)

    async def ack(context, event):
        await asyncio.sleep(random.uniform(0, 0.3))
        await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
"""
ACKS_THROUGH = ACKS_LATE.replace("explicit_ack(", "explicit_ack_through(")
TO_AN_OUTPUT = PRODUCES.replace("message(event))\n", 'message(event), output="other")\n')
IN_BATCHES = f"""{_TOLD}
    def handler(context, events):
        for event in events:
            begin(event)
            context.produce(OUT, message(event))
            time.sleep(0.001)
            note("END", event)
"""


@dataclass(frozen=True, slots=True)
class Mode:
    """How a function writes what is refused."""

    handler: str = PRODUCES
    way: Way = IN_ORDER
    attributes: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    returns: bool = False
    is_once: bool = False
    output: bool = False
    """What it writes goes to an output of its own."""
    per_second: int = 250
    """Records that it gets done, or less."""
    repeats: int = 0
    """Good records that a failure, or a change of owners, may bring again."""


EXPLICIT = {"explicitAckMode": "explicitOnly", "waitExplicitAckDuringRebalanceTimeout": "500ms"}
BATCH = {"batch": {"mode": "enable", "batchSize": SIZE, "timeout": "50ms"}}
MODES = {
    "plain": Mode(),
    "result": Mode(RETURNS, returns=True),
    "explicit": Mode(ACKS_LATE, Way(allocation="static"), fields=EXPLICIT, repeats=WORKERS * OPEN_ACKS),
    "key": Mode(way=Way("key", keys=3)),
    "none": Mode(way=Way("none")),
    "once": Mode(attributes={"exactlyOnce": True}, is_once=True, per_second=60),
    "once-batches": Mode(
        IN_BATCHES,
        attributes={"exactlyOnce": True},
        fields=BATCH,
        is_once=True,
        per_second=20,
    ),
}
CROSSED = {
    "batches": Mode(IN_BATCHES, fields=BATCH, per_second=40),
    "once-key": Mode(way=Way("key", keys=3), attributes={"exactlyOnce": True}, is_once=True, per_second=60),
    "once-cumulative": Mode(
        ACKS_THROUGH,
        Way(allocation="static"),
        attributes={"exactlyOnce": True},
        fields=EXPLICIT,
        is_once=True,
        per_second=60,
        repeats=WORKERS * OPEN_ACKS,
    ),
    "outputs": Mode(TO_AN_OUTPUT, output=True),
    "once-outputs": Mode(TO_AN_OUTPUT, attributes={"exactlyOnce": True}, output=True, per_second=120),
}


def refused(mode: Mode, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """Until its time is up and all is settled, or nothing moves any more."""
    out, graves = (f"{name}-{random.getrandbits(48):x}" for name in ("out", "graves"))
    asyncio.run(
        create_topics(
            BrokerAccess(broker.bootstrap), {out: PARTITIONS}, {"max.message.bytes": str(LIMIT_BYTES)}
        )
    )
    broker.create(graves, 1)
    until, records = time.monotonic() + report.seconds + 5, int(report.seconds * mode.per_second)
    with load_of(mode, broker, folder, out, graves, records=records) as load:
        if mode.output:
            set_spec(load.function, outputs={"other": {"brokers": [broker.bootstrap]}})
        weather = Weather(load, report, number, REPLICAS)
        topics = {out: PARTITIONS, graves: 1}
        with watched(broker, load.group, topics) as looks:
            load.begin(*REPLICAS * [load.function])
            with stalls_of(load) as stalls:  # only now there are records
                weather.strike()
                while load.is_busy(left=load.records // 10) and time.monotonic() < until:
                    weather.strike()
                load.finish(FINISH_SECONDS)
        weather.say()
        doomed = doomed_of(load.produced)
        stalls.say(report, number)
        explained = allowed(mode, weather, len(doomed))
        # A message that is refused fails all of its batch, behind which others may have run.
        failing = load.produced if "batch" in mode.fields else doomed
        load.check(report, number, explained, failing=failing)
        written = read_results(broker, out, load.topic, is_once=mode.is_once)
        letters = read_letters(broker, graves)
        outcome = Outcome(load.produced, load.ends, load.history, looks, written, letters=letters)
        judge_results(outcome, report, number)
        found = Refusals(doomed, written, letters, load.history, explained.repeats, is_once=mode.is_once)
        judge_refusals(found, report, number)


def load_of(mode: Mode, broker: Broker, folder: Path, out: str, graves: str, *, records: int) -> Load:
    """What fails fails for good: it is tried twice."""
    policy = {"maxAttempts": ATTEMPTS, "backoff": "20ms", "maxBackoff": "100ms"}
    policy |= {"then": "deadLetter", "deadLetterTopic": graves}
    return Load(
        broker,
        folder,
        records,
        partitions=PARTITIONS,
        handler=mode.handler.replace("OUT", repr(out)),
        fields=mode.fields,
        way=mode.way,
        onFailure=policy,
        **mode.attributes | ({"resultTopic": out} if mode.returns else {}),
    )


def doomed_of(produced: Collection[RecordId]) -> set[RecordId]:
    """Those that no handler gets written, as its `fate` says."""
    return {it for it in produced if zlib.crc32(f"{it[1]} {it[2]}".encode()) % 20 < 3}


def allowed(mode: Mode, weather: Weather, doomed: int) -> Allowed:
    """A batch that has a doomed record in it comes again and again, until that is alone."""
    load = weather.load
    explained = weather.replicas + (weather.workers if mode.is_once else [])
    strikes = len(weather.workers + weather.replicas) + weather.changes
    in_batches = 4 * ATTEMPTS * SIZE * doomed if "batch" in mode.fields else 0
    hands = load.in_hand * (SIZE if in_batches else 1)
    return Allowed(
        repeats=load.may_repeat(explained)
        + len(weather.workers) * hands
        + strikes * mode.repeats
        + in_batches,
        cut_off=hands * len(weather.replicas + weather.workers),
        attempts=ATTEMPTS * SIZE,
        stall_seconds=2 * STALL_SECONDS,
    )


SCENARIOS: dict[str, Scenario] = {
    f"refused-{name}": partial(refused, mode) for name, mode in (MODES | CROSSED).items()
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
