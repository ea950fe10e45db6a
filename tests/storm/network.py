"""`make storm`: the network between one of two replicas and the broker, and the broker itself, come and go.

cut-1s, cut-10s, cut-60s  nothing goes through for so long, in both directions
one-way                   requests arrive, answers don't, for 10 s
delay                     every packet takes 0.3 s each way
...-consumer              the same where the broker shares partitions out
failover-consumer         three brokers, of which the one that coordinates the group is killed
b1-restart, b1-kill       the broker stops in peace, or is killed, and comes back with its data

usage: network.py [SCENARIO] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from aiokafka.admin import AIOKafkaAdminClient
from broker import Broker
from faults import long_records_for, records_for, started_fenced, starts_from
from judge import STALL_SECONDS, Allowed
from load import LONG_AT_TIMES, SESSION_SECONDS, WORKERS, Fault, Load, pause
from proxy import Proxy
from replica import DECODED, Replica, wait_until
from scenario import Report, Scenario, main
from three_brokers import three_brokers
from ways import BY_BROKER, IN_ORDER, Way

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.embedded.ports import choose_ports

BROKER_SESSION_SECONDS = 10  # longer than the broker is away
AWAY_SECONDS = 60  # at most, on a machine that is busy
BLIND_NS = 3 * 10**9
"""A new coordinator tells of older commits for a moment: it doesn't know yet that others have the last."""
BUFFER = 16
# A buffer counts records only where each is decoded, and a fetch brings one batch of a partition: what has
# been fetched needs no broker, so it is little in half of the repetitions. In the others it is all that fits.
SPARING: dict[str, Any] = {"channelBufferSize": BUFFER, "fetchDefault": 1, "body_bytes": 500, **DECODED}


@contextmanager
def own_broker(loop: asyncio.AbstractEventLoop) -> Iterator[tuple[EmbeddedKafka, Proxy, int]]:
    """A broker with a second listener, which is reached through a proxy, and the port of that listener."""
    ports = choose_ports(0, ["SASL"])
    behind, proxied = ports["SASL"], ports["CONTROLLER"]

    def settings(*given: Any) -> dict[str, str]:
        found = broker_settings(*given)
        found["listeners"] += f",PROXIED://127.0.0.1:{behind}"
        found["advertised.listeners"] += f",PROXIED://127.0.0.1:{proxied}"
        found["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        return found

    kafka = EmbeddedKafka()
    with mock.patch.object(embedded_kafka, "broker_settings", settings):
        loop.run_until_complete(kafka.start())
    try:
        with Proxy().running(proxied, behind) as proxy:
            yield kafka, proxy, proxied
    finally:
        loop.run_until_complete(kafka.stop())


def cut(  # noqa: PLR0917  # a scenario, and how it is cut
    seconds: float,
    directions: tuple[str, ...],
    way: Way,
    _: Broker,
    folder: Path,
    number: int,
    report: Report,
) -> None:
    """Again and again. After longer than its session it has lost its partitions, and gets some by itself."""
    loop = asyncio.new_event_loop()
    faults: list[Fault] = []
    fetching = SPARING if number % 2 == 0 else {}
    left = long_records_for(seconds + 6, 1)  # for the other one, during the last cut
    with own_broker(loop) as (kafka, proxy, port):
        broker = Broker(kafka.bootstrap, "embedded")
        records = left + long_records_for(report.seconds, 2)
        with Load(broker, folder, records, handler=LONG_AT_TIMES, way=way, **fetching) as load:
            load.begin(load.function, load.write(folder / "proxied", f"127.0.0.1:{port}"))
            victim = load.replicas[1]
            while load.is_busy(left):
                pause(0, 2)
                if is_long := seconds > 2 * SESSION_SECONDS:
                    load.occupy(victim)
                    pause(0, 0.5)
                fault = Fault(victim.process.pid, time.monotonic_ns())
                proxy.cut(*directions)
                time.sleep(seconds)
                load.free(victim)
                mended_ns = time.monotonic_ns()
                proxy.mend()
                faults.append(fault)
                check_mended(load, victim, mended_ns, report, number)
                if is_long:
                    stale = started_fenced(load, fault, mended_ns)
                    report.add("L7 started while cut off, and another owned it", len(stale), 0, 0, number)
            load.finish()
            report.add_faults("cuts", len(faults), number)
            attempts = max(entry.attempt for entry in load.history)
            report.add("attempts", attempts, 1, 1, number)
            repeats = sum(
                load.may_repeat([fault]) + load.handled_unknowing(fault, seconds) for fault in faults
            )
            allowed = Allowed(repeats, cut_off=WORKERS * len(faults), memberships_lost=len(faults))
            load.check(report, number, allowed)
    loop.close()


def check_mended(load: Load, victim: Replica, mended_ns: int, report: Report, number: int) -> None:
    """It handles records again, if any are left."""
    found = starts_from(load, victim, mended_ns)
    waited = (found[0].ns - mended_ns) / 1e9 if found else 0
    report.add("its next start after the fault, s", waited, 0, 15, number)


def delay(way: Way, _: Broker, folder: Path, number: int, report: Report) -> None:
    """Slow, and nothing else: no rebalance, nothing twice."""
    loop = asyncio.new_event_loop()
    with own_broker(loop) as (kafka, proxy, port):
        broker = Broker(kafka.bootstrap, "embedded")
        records = records_for(report.seconds, 2)
        with Load(broker, folder, records, way=way, sessionTimeout="6s", channelBufferSize=BUFFER) as load:
            load.begin(load.function, load.write(folder / "proxied", f"127.0.0.1:{port}"))
            before = load.replicas[1].trigger()["generation"]
            proxy.delay_seconds = 0.3
            wait_until(lambda: not load.is_busy(), about=load.replicas[1])
            report.add("rebalances", load.replicas[1].trigger()["generation"] - before, 0, 0, number)
            proxy.delay_seconds = 0
            load.finish()
            load.check(report, number, Allowed())
    loop.close()


def b1(how: str, way: Way, _: Broker, folder: Path, number: int, report: Report) -> None:
    """Back within the session, nobody notices but by waiting; longer, and workers are ended for nothing."""
    loop = asyncio.new_event_loop()
    faults: list[Fault] = []
    fetching = SPARING if number % 2 == 0 else {}
    with own_broker(loop) as (kafka, _proxy, _port):
        broker = Broker(kafka.bootstrap, "embedded")
        records = long_records_for(report.seconds, 2)
        load = Load(
            broker,
            folder,
            records,
            handler=LONG_AT_TIMES,
            way=way,
            sessionTimeout=f"{BROKER_SESSION_SECONDS}s",
            **fetching,
        )
        with load:
            load.begin(load.function, load.function)
            restarts = 0
            while load.is_busy(left=500) or not restarts:
                pause(0, 2)
                restarts += 1
                faults += [Fault(running.process.pid, time.monotonic_ns()) for running in load.replicas]
                loop.run_until_complete(kafka.restart(kill=how == "kill"))
                away = (time.monotonic_ns() - faults[-1].ns) / 1e9
                report.add("broker away, s", away, 0, AWAY_SECONDS, number)
                check_mended(load, load.replicas[0], time.monotonic_ns(), report, number)
            load.finish()
            report.add_faults("restarts of the broker", restarts, number)
            repeats = sum(
                load.may_repeat([fault]) + load.handled_unknowing(fault, BROKER_SESSION_SECONDS)
                for fault in faults
            )
            allowed = Allowed(
                repeats,
                cut_off=WORKERS * len(faults),
                memberships_lost=len(faults),
                stall_seconds=AWAY_SECONDS + STALL_SECONDS,
            )
            load.check(report, number, allowed)
    loop.close()


def failover(way: Way, _: Broker, folder: Path, number: int, report: Report) -> None:
    """Three brokers; the one that coordinates the group is killed, and back later. Nobody need notice."""
    loop = asyncio.new_event_loop()
    faults: list[Fault] = []
    with three_brokers(loop) as brokers:
        broker = Broker(",".join(each.bootstrap for each in brokers), "embedded")
        session = f"{BROKER_SESSION_SECONDS}s"
        records = long_records_for(report.seconds, 3)
        with Load(broker, folder, records, handler=LONG_AT_TIMES, way=way, sessionTimeout=session) as load:
            load.begin(*3 * [load.function])
            kills, blind = 0, []
            while load.is_busy(left=500) or not kills:
                pause(0, 2)
                kills += 1
                node = loop.run_until_complete(coordinator_of(broker, load.group))
                faults += [Fault(running.process.pid, time.monotonic_ns()) for running in load.replicas]
                loop.run_until_complete(brokers[node - 1].restart(kill=True))
                for running in load.replicas:
                    check_mended(load, running, time.monotonic_ns(), report, number)
                blind.append((faults[-1].ns, time.monotonic_ns() + BLIND_NS))
            load.finish()
            report.add_faults("kills of the coordinator", kills, number)
            # That all is committed, which it has waited for, is so whoever says it.
            load.samples[:] = [
                it
                for it in load.samples
                if it.offsets == load.ends or not any(a < it.ns < b for a, b in blind)
            ]
            repeats = sum(
                load.may_repeat([fault]) + load.handled_unknowing(fault, BROKER_SESSION_SECONDS)
                for fault in faults
            )
            allowed = Allowed(
                repeats,
                cut_off=WORKERS * len(faults),
                memberships_lost=len(faults),
                stall_seconds=AWAY_SECONDS + STALL_SECONDS,
            )
            load.check(report, number, allowed)
    loop.close()


async def coordinator_of(broker: Broker, group: str) -> int:
    """Its node's number."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        return int(await admin.find_coordinator(group))
    finally:
        await admin.close()


SCENARIOS: dict[str, Scenario] = {
    "cut-1s": partial(cut, 1, (), IN_ORDER),
    "cut-10s": partial(cut, 10, (), IN_ORDER),
    "cut-60s": partial(cut, 60, (), IN_ORDER),
    "one-way": partial(cut, 10, ("down",), IN_ORDER),
    "cut-1s-consumer": partial(cut, 1, (), BY_BROKER),
    "cut-10s-consumer": partial(cut, 10, (), BY_BROKER),
    "cut-60s-consumer": partial(cut, 60, (), BY_BROKER),
    "one-way-consumer": partial(cut, 10, ("down",), BY_BROKER),
    "delay": partial(delay, IN_ORDER),
    "delay-consumer": partial(delay, BY_BROKER),
    "b1-restart": partial(b1, "restart", IN_ORDER),
    "b1-kill": partial(b1, "kill", IN_ORDER),
    "failover-consumer": partial(failover, BY_BROKER),
    "b1-restart-consumer": partial(b1, "restart", BY_BROKER),
    "b1-kill-consumer": partial(b1, "kill", BY_BROKER),
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
