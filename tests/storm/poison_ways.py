"""`make storm`: records that fail, hang or end their worker, one in a hundred, in each way of ways.py.

usage: poison_ways.py [p1-WAY] [--count N] [--seed N]
"""

import asyncio
import random
import sys
from collections import Counter, defaultdict
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from broker import Broker
from failing_records import read
from kafka_records import produce
from replica import lines, replica, set_spec, wait_until, write_function
from scenario import Report, main
from ways import KEYS, WAYS, Way

from headrace.runtime.kafka.dead_letter_headers import split_headers

PARTITIONS, EACH = 4, 400
ATTEMPTS = 3
HANDLER = """
    import ctypes
    async def handler(context, event):
        write(f"start {{event.shard_id}} {{event.offset}} {{event.attempt}}")
        await asyncio.sleep(0.02)
        match {poison}.get((event.shard_id, event.offset)):
            case "raises":
                raise ValueError("poison")
            case "exits":
                os._exit(7)
            case "segfaults":
                ctypes.string_at(0)
            case "hangs":
                time.sleep(600)
        write(f"end {{event.shard_id}} {{event.offset}} {{event.attempt}}")
"""
DEADLY = ["exits", "segfaults", "hangs"]


def poisoned(way: Way, broker: Broker, folder: Path, number: int, report: Report) -> None:
    """All poison becomes dead letters after its attempts; all else is handled, each turn in its order."""
    topic, graves = broker.create_topic(PARTITIONS), broker.create_topic(1)
    places = random.sample([(p, o) for p in range(PARTITIONS) for o in range(EACH)], PARTITIONS * EACH // 100)
    poison = {place: ["raises", *DEADLY][at % 4] for at, place in enumerate(places)}
    policy = {"maxAttempts": ATTEMPTS, "backoff": "20ms", "maxBackoff": "100ms"}
    policy |= {"then": "deadLetter", "deadLetterTopic": graves}
    attributes: dict[str, Any] = way.attributes | {"onFailure": policy}
    function = write_function(
        folder / "f",
        HANDLER.format(poison=poison),
        broker.bootstrap,
        [topic],
        **attributes,
    )
    set_spec(function, eventTimeout="2s")
    produce(broker, topic, PARTITIONS * EACH, PARTITIONS, keys=KEYS)
    with replica(function) as running:
        wait_until(lambda: set(running.committed().values()) == {EACH}, about=running)
        assert running.stop() == 0
    rows = [(row[0], (int(row[1]), int(row[2]))) for row in map(str.split, lines(function))]
    starts = [place for what, place in rows if what == "start"]
    ended = {place for what, place in rows if what == "end"}
    deadly = sum(kind in DEADLY for kind in poison.values())
    letters = asyncio.run(read(broker, graves, len(poison)))
    sources = [it for letter in letters if (it := split_headers(letter.headers)[1]) is not None]
    told = Counter((it.partition, it.offset, it.attempts) for it in sources)
    report.add_faults("records of poison", len(poison), number)
    lost = PARTITIONS * EACH - len(ended | poison.keys())
    report.add("good records that never ended", lost, 0, 0, number)
    wrong = told != Counter((*place, ATTEMPTS) for place in poison)
    report.add("dead letters that aren't the poison's, after its attempts", int(wrong), 0, 0, number)
    repeated = len(starts) - len(set(starts) - poison.keys()) - sum(place in poison for place in starts)
    # With each that ends its worker, once: then it is suspected, and goes alone.
    report.add("deliveries of others repeated", repeated, 0, deadly * (way.at_once - 1), number)
    report.add("turns out of order", _out_of_order(way, starts), 0, 0, number)


def _out_of_order(way: Way, starts: list[tuple[int, int]]) -> int:
    """Of how many partitions or keys a higher record started before a lower one was done with."""
    turns: dict[object, list[int]] = defaultdict(list)
    for partition, offset in starts:
        turns[way.turn(("", partition), offset)].append(offset)
    in_turn = ([offset for offset, _ in groupby(offsets)] for offsets in turns.values())
    return sum(offsets != sorted(set(offsets)) for offsets in in_turn)


SCENARIOS = {f"p1-{name}": partial(poisoned, way) for name, way in WAYS.items()}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
