"""`make bench-produce`: a result for each record of 100 B, in turns with a bare loop that does the same."""

import asyncio
import os
import statistics
import sys

from bare_produce import OUT
from bench import MORE, topic_of
from folders import BENCHMARKS
from rig import PARTITIONS, Start, headrace, measure, script

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

RECORDS = int(os.environ.get("BENCH_RECORDS", "600000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
TARGET = 0.5
PRODUCES = f"""
def handler(context, event):
    context.produce({OUT!r}, event.body)
    add(1)
"""
RETURNS = """
def handler(context, event):
    add(1)
    return event.body
"""
BARE = "bare aiokafka, getmany(500) and send"
SYSTEMS: dict[str, Start] = {
    BARE: script(BENCHMARKS / "bare_produce.py"),
    "headrace, 2 workers, context.produce": headrace(2, PRODUCES, **MORE),
    "headrace, 2 workers, resultTopic": headrace(2, RETURNS, resultTopic=OUT, **MORE),
    "headrace, 1 worker, context.produce": headrace(1, PRODUCES, **MORE),
}


async def main() -> int:
    """1 where the first of ours is below the target."""
    rates: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({OUT: PARTITIONS})
        load = await topic_of(kafka, "small", RECORDS, 100)
        for _ in range(ROUNDS):
            for name, start in SYSTEMS.items():
                rates[name].append(await asyncio.to_thread(measure, start, load))
    bare, met = rates[BARE], True
    for name, found in rates.items():
        ratio = statistics.median(one / other for one, other in zip(found, bare, strict=True))
        is_judged = name != BARE and name.startswith("headrace, 2")
        met = met and (not is_judged or ratio >= TARGET)
        verdict = f"   at least {TARGET}: {'held' if ratio >= TARGET else 'BROKEN'}" if is_judged else ""
        print(f"{name:42} {statistics.median(found):9.0f}/s   {ratio:.2f} of bare{verdict}", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
