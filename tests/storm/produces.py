"""`make storm`: a result for each record goes to another topic, while everything dies and comes back.

produce-plain  by context.produce, or resultTopic: for each committed record there is one, at any time
produce-once   the same with exactlyOnce: whoever reads what is committed finds each exactly once

Kills of workers, of replicas and of the broker, replicas that join and leave, each at least once.

usage: produces.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from broker import Broker
from faults import records_for
from history import RECORDER
from judge import STALL_SECONDS, Allowed
from load import Fault, Load
from network import AWAY_SECONDS, check_mended, own_broker
from output_topic import read_results, watched
from results import Outcome, judge_results
from scenario import Report, Scenario, main
from weather import Weather

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

PARTITIONS = 8
REPLICAS = 2
SESSION_SECONDS = 6  # longer than the broker is away
HANDLER_SECONDS = 0.003
RESULT_BYTES = (
    1000  # a worker may produce 1 MiB that isn't confirmed: that is less than while the broker is away
)
PRODUCES = f"""
{RECORDER}
    def handler(context, event):
        note("START", event)
        context.produce(OUT, f"{{event.shard_id}} {{event.offset}}".ljust({RESULT_BYTES}))
        time.sleep({HANDLER_SECONDS})
        note("END", event)
"""
RETURNS = f"""
{RECORDER}
    def handler(context, event):
        note("START", event)
        time.sleep({HANDLER_SECONDS})
        note("END", event)
        return f"{{event.shard_id}} {{event.offset}}".ljust({RESULT_BYTES})
"""


@dataclass(kw_only=True)
class BrokerWeather(Weather):
    """The same, with a broker that is killed too."""

    kafka: EmbeddedKafka
    loop: asyncio.AbstractEventLoop
    brokers: list[Fault] = field(default_factory=list)
    restarts: int = 0

    def everything(self) -> list[Callable[[], None]]:
        """The broker too."""
        return [*super().everything(), self.kill_broker]

    def kill_broker(self) -> None:
        """All replicas miss it, until it is back."""
        began_ns = time.monotonic_ns()
        self.brokers += [Fault(running.process.pid, began_ns) for running in self.load.replicas]
        self.loop.run_until_complete(self.kafka.restart(kill=True))
        self.restarts += 1
        back_ns = time.monotonic_ns()
        self.report.add("broker away, s", (back_ns - began_ns) / 1e9, 0, AWAY_SECONDS, self.number)
        check_mended(self.load, self.load.replicas[0], back_ns, self.report, self.number)

    def allowed(self, *, is_once: bool) -> Allowed:
        """An aborted transaction takes all with it that was handled in it."""
        load = self.load
        explained = self.replicas + self.brokers + (self.workers if is_once else [])
        unknowing = sum(load.handled_unknowing(fault, SESSION_SECONDS) for fault in self.brokers)
        return Allowed(
            repeats=load.may_repeat(explained) + unknowing + len(self.workers),
            cut_off=load.in_hand * len(self.replicas + self.brokers) + len(self.workers),
            attempts=1,
            memberships_lost=len(self.brokers),
            stall_seconds=AWAY_SECONDS + STALL_SECONDS,
        )

    def say(self) -> None:
        """In the first line of the storm."""
        super().say()
        self.report.add_faults("kills of the broker", self.restarts, self.number)


def transform(attributes: dict[str, Any], _: Broker, folder: Path, number: int, report: Report) -> None:
    """One result for each record. Odd repetitions return it."""
    is_once = bool(attributes.get("exactlyOnce"))
    loop = asyncio.new_event_loop()
    with own_broker(loop) as (kafka, _proxy, _port):
        broker = Broker(kafka.bootstrap, "embedded")
        out = broker.create_topic(PARTITIONS)
        with load_of(broker, folder, out, report.seconds, returns=number % 2 == 1, **attributes) as load:
            weather = BrokerWeather(load, report, number, REPLICAS, kafka=kafka, loop=loop)
            with watched(broker, load.group, {out: PARTITIONS}) as looks:
                load.begin(*REPLICAS * [load.function])
                weather.strike()
                while load.is_busy(left=1000):
                    weather.strike()
                load.finish()
            weather.say()
            load.check(report, number, weather.allowed(is_once=is_once))
            results = read_results(broker, out, load.topic, is_once=is_once)
            outcome = Outcome(load.produced, load.ends, load.history, looks, results, is_once=is_once)
            judge_results(outcome, report, number)
    loop.close()


def load_of(
    broker: Broker, folder: Path, out: str, seconds: float, *, returns: bool, **attributes: Any
) -> Load:
    """A record whose worker was killed too often has done nothing wrong."""
    return Load(
        broker,
        folder,
        records_for(seconds, REPLICAS, HANDLER_SECONDS),
        partitions=PARTITIONS,
        handler=RETURNS if returns else PRODUCES.replace("OUT", repr(out)),
        sessionTimeout=f"{SESSION_SECONDS}s",
        onFailure={"maxAttempts": 0, "maxBackoff": "1s"},
        **attributes | ({"resultTopic": out} if returns else {}),
    )


SCENARIOS: dict[str, Scenario] = {
    "produce-plain": partial(transform, {}),
    "produce-once": partial(transform, {"exactlyOnce": True}),
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
