"""`make bench-produce`: a result for each record of 100 B, in turns with bare loops and peers.

All are idempotent, confirmed by all replicas, and commit what is confirmed. Judged by a loop that sends each
result as one message, as a handler does. One that makes batches by hand shows what that costs.
"""

import asyncio
import os
import statistics
import sys

import peers
from bare_produce import OUT
from bench import MORE, Table, rounds, topic_of
from folders import BENCHMARKS
from rig import PARTITIONS, Start, headrace, measure, script

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

RECORDS = int(os.environ.get("BENCH_RECORDS", "600000"))
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
JUDGED = {
    "headrace, 2 workers, context.produce": headrace(2, PRODUCES, **MORE),
    "headrace, 2 workers, resultTopic": headrace(2, RETURNS, resultTopic=OUT, **MORE),
}
SYSTEMS: dict[str, Start] = {
    BARE: script(BENCHMARKS / "bare_produce.py"),
    "bare aiokafka, batches by hand": script(BENCHMARKS / "bare_batches.py"),
    **JUDGED,
    "headrace, 1 worker, context.produce": headrace(1, PRODUCES, **MORE),
    "headrace, 2 workers, exactlyOnce": headrace(2, PRODUCES, exactlyOnce=True, **MORE),
}
# Its program, and whose environment it runs in.
PEERS = {
    "FastStream, @publisher, batches of 500": ("faststream_publisher", "faststream_batch"),
    "Quix Streams, to_topic": ("quix_to_topic", "quix_streams"),
}


def installed_peers() -> dict[str, Start]:
    """Those that could be installed; says why another couldn't."""
    found: dict[str, Start] = {}
    for name, (program, environment) in PEERS.items():
        try:
            found[name] = script(peers.program(program), peers.install(environment))
        except RuntimeError as error:
            print(f"{name} is left out: {error}", flush=True)
    return found


def show(table: Table) -> bool:
    """A line each, by the median of its ratios; whether the targets are met."""
    bare, held = table[BARE], []
    for name, found in table.items():
        ratio = statistics.median(one / other for one, other in zip(found, bare, strict=False))
        verdict = ""
        if name in JUDGED:
            held.append(ratio >= TARGET)
            verdict = f"   at least {TARGET}: {'held' if held[-1] else 'BROKEN'}"
        print(f"{name:42} {statistics.median(found):9,.0f}/s   {ratio:.2f} of bare{verdict}", flush=True)
    return len(held) == len(JUDGED) and all(held)


async def main() -> int:
    """1 where one of ours that is judged is below the target."""
    systems = SYSTEMS | installed_peers()
    async with EmbeddedKafka() as kafka:
        await kafka.create_topics({OUT: PARTITIONS})
        load = await topic_of(kafka, "small", RECORDS, 100)
        await asyncio.to_thread(measure, SYSTEMS[BARE], load)  # a broker that has just started is slow
        table = await rounds(systems, load)
    return 0 if show(table) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
