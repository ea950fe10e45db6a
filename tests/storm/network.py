"""`make storm`: the network between one of two replicas and the broker, and the broker itself, come and go.

cut-1s, cut-10s, cut-60s  nothing goes through for so long, in both directions
one-way                   requests arrive, answers don't, for 10 s
delay                     every packet takes 0.3 s each way
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
from unittest import mock

from broker import Broker
from faults import records_for
from history import Entry, started_between
from load import SESSION_SECONDS, Fault, Load, pause
from proxy import Proxy
from replica import wait_until
from scenario import Report, Scenario, main

from headrace.runtime import embedded_kafka
from headrace.runtime.embedded_kafka import EmbeddedKafka
from headrace.runtime.embedded_kafka_settings import broker_settings
from headrace.runtime.loopback_ports import choose_ports

BUFFER = 16  # little: what has been fetched needs no broker


@contextmanager
def own_broker(loop: asyncio.AbstractEventLoop) -> Iterator[tuple[EmbeddedKafka, Proxy, int]]:
    """A broker with a second listener, which is reached through a proxy, and the port of that listener."""
    ports = choose_ports(0, sasl=True, tls=False)
    behind, proxied = ports["SASL"], ports["CONTROLLER"]

    def settings(*given: dict[str, int]) -> dict[str, str]:
        found = broker_settings(*given)  # type: ignore[arg-type]  # as it is called
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


def cut(
    seconds: float, directions: tuple[str, ...], _: Broker, folder: Path, number: int, report: Report
) -> None:
    """Whoever is cut off longer than its session loses its partitions, and gets some back by itself."""
    loop = asyncio.new_event_loop()
    with own_broker(loop) as (kafka, proxy, port):
        broker = Broker(kafka.bootstrap, "embedded")
        records = records_for(report.seconds + 2 * seconds, 2)
        with Load(broker, folder, records, channelBufferSize=BUFFER) as load:
            load.begin(load.function, load.write(folder / "proxied", f"127.0.0.1:{port}"))
            victim = load.replicas[1]
            pause(0, 2)
            fault = Fault(victim.process.pid, time.monotonic_ns())
            proxy.cut(*directions)
            time.sleep(seconds)
            mended_ns = time.monotonic_ns()
            proxy.mend()
            wait_until(
                lambda: started_between(load.history, fault.pid, mended_ns, 2**63) or not load.is_busy(),
                about=victim,
            )
            recovered = next(
                (it.ns for it in load.history if it.replica == fault.pid and it.ns > mended_ns), 0
            )
            report.add("its next start after the mending, s", (recovered - mended_ns) / 1e9, 0, 15, number)
            load.finish()
            if seconds > 2 * SESSION_SECONDS:
                owned_ns = fault.ns + int(load.resumed_seconds(fault) * 1e9)
                stale = started_between(load.history, fault.pid, owned_ns, mended_ns)
                report.add("L7 started while cut off, and another owned it", len(stale), 0, 0, number)
            attempts = max(entry.attempt for entry in load.history)
            report.add("attempts", attempts, 1, 1, number)
            load.check(report, number, load.may_repeat([fault]) + records_in(load, fault, seconds))
    loop.close()


def records_in(load: Load, fault: Fault, seconds: float) -> int:
    """What it handled while cut off and still a member: if it is thrown out, that can't be committed."""
    end_ns = fault.ns + int(min(seconds, SESSION_SECONDS + 1) * 1e9)
    return len([it for it in load.history if _is_end(it, fault, end_ns)])


def _is_end(entry: Entry, fault: Fault, end_ns: int) -> bool:
    return entry.what == "END" and entry.replica == fault.pid and fault.ns < entry.ns < end_ns


def delay(_: Broker, folder: Path, number: int, report: Report) -> None:
    """Slow, and nothing else: no rebalance, nothing twice."""
    loop = asyncio.new_event_loop()
    with own_broker(loop) as (kafka, proxy, port):
        broker = Broker(kafka.bootstrap, "embedded")
        records = records_for(report.seconds, 2)
        with Load(broker, folder, records, sessionTimeout="6s", channelBufferSize=BUFFER) as load:
            load.begin(load.function, load.write(folder / "proxied", f"127.0.0.1:{port}"))
            before = load.replicas[1].trigger()["generation"]
            proxy.delay_seconds = 0.3
            wait_until(lambda: not load.is_busy(), 120, about=load.replicas[1])
            report.add("rebalances", load.replicas[1].trigger()["generation"] - before, 0, 0, number)
            proxy.delay_seconds = 0
            load.finish()
            load.check(report, number, 0)
    loop.close()


def b1(how: str, _: Broker, folder: Path, number: int, report: Report) -> None:
    """Back within the session, nobody notices but by waiting; longer, and workers are ended for nothing."""
    loop = asyncio.new_event_loop()
    with own_broker(loop) as (kafka, _proxy, _port):
        broker = Broker(kafka.bootstrap, "embedded")
        records = records_for(report.seconds, 2)
        with Load(broker, folder, records, sessionTimeout="10s", channelBufferSize=BUFFER) as load:
            load.begin(load.function, load.function)
            pause(0, 2)
            faults = [Fault(running.process.pid, time.monotonic_ns()) for running in load.replicas]
            loop.run_until_complete(kafka.restart(kill=how == "kill"))
            report.add("broker away, s", (time.monotonic_ns() - faults[0].ns) / 1e9, 0, 60, number)
            load.finish()
            allowed = sum(load.may_repeat([fault]) + records_in(load, fault, 10) for fault in faults)
            load.check(report, number, allowed)
    loop.close()


SCENARIOS: dict[str, Scenario] = {
    "cut-1s": partial(cut, 1, ()),
    "cut-10s": partial(cut, 10, ()),
    "cut-60s": partial(cut, 60, ()),
    "one-way": partial(cut, 10, ("down",)),
    "delay": delay,
    "b1-restart": partial(b1, "restart"),
    "b1-kill": partial(b1, "kill"),
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(SCENARIOS, __doc__ or "")))
