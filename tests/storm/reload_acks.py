"""`make storm`: a handler is saved under load, while acks are held open and workers and replicas are killed.

reload-held-acks  explicitOnly, acks up to 2 s after their handler: what isn't acked at a reload comes again

usage: reload_acks.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from broker import Broker
from commits import committed_too_far
from deliveries import lost
from history import RECORDER
from judge import STALL_SECONDS, Allowed
from load import Load
from scenario import Report, Scenario, main
from stalls import stalls_of
from ways import Way
from weather import Weather

PARTITIONS, REPLICAS = 8, 2
OPEN = 64  # records of a partition
FINISH_SECONDS = 120.0
PER_SECOND = 300
HANDLER = f"""
{RECORDER}
    import random
    import nuclio_sdk

    async def handler(context, event):
        note("START", event)
        await asyncio.sleep(0.003)
        note("END", event)
        context.create_task(ack(context, event), event)

    async def ack(context, event):
        await asyncio.sleep(random.uniform(0, 2) if random.random() < 0.3 else 0)
        note("ACK", event)  # before it can be committed
        await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
"""


@dataclass(kw_only=True)
class ReloadWeather(Weather):
    """The same, with code that is saved anew, more often than anything else."""

    reloads: int = 0

    def everything(self) -> list[Callable[[], None]]:
        """Reloads too."""
        return [*super().everything(), *4 * [self.reload]]

    def reload(self) -> None:
        """All replicas have the same folder."""
        code = self.load.function / "function_code.py"
        self.reloads += 1
        saved = code.with_suffix(".new")
        saved.write_text(f"{code.read_text()}# saved for the {self.reloads}. time\n")
        saved.replace(code)

    def say(self) -> None:
        """In the first line of the storm."""
        super().say()
        self.report.add_faults("reloads", self.reloads, self.number)


def reload_held_acks(broker: Broker, folder: Path, number: int, report: Report) -> None:
    """A worker's tasks end with it: nobody else can ack what they were to."""
    until = time.monotonic() + report.seconds + 5
    with Load(
        broker,
        folder,
        int(report.seconds * PER_SECOND),
        partitions=PARTITIONS,
        handler=HANDLER,
        fields={"explicitAckMode": "explicitOnly", "waitExplicitAckDuringRebalanceTimeout": "500ms"},
        way=Way(allocation="static"),
        arguments=["--reload"],
        channelBufferSize=OPEN,
        onFailure={"maxAttempts": 0, "maxBackoff": "1s"},
    ) as load:
        weather = ReloadWeather(load, report, number, REPLICAS)
        load.begin(*REPLICAS * [load.function])
        with stalls_of(load) as stalls:
            weather.strike()
            while load.is_busy(left=load.records // 10) and time.monotonic() < until:
                weather.strike()
            load.finish(FINISH_SECONDS)
        weather.say()
        stalls.say(report, number)
        strikes = len(weather.workers + weather.replicas) + weather.changes + weather.reloads
        kills = len(weather.workers + weather.replicas)
        allowed = Allowed(
            repeats=strikes * OPEN * PARTITIONS,
            cut_off=load.in_hand * kills,
            attempts=1,
            stall_seconds=2 * STALL_SECONDS,
        )
        load.check(report, number, allowed)
        acked = [replace(it, what="END") for it in load.history if it.what == "ACK"]
        report.add("L1 never acked", len(lost(load.produced, acked)), 0, 0, number)
        early = committed_too_far(load.samples, acked, load.produced, {})
        report.add("L5 committed before their ack", len(early), 0, 0, number)


SCENARIOS: dict[str, Scenario] = {"reload-held-acks": reload_held_acks}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
