"""A function under load, with replicas that come and go, and what its history and its commits say."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from broker import Broker
from commits import Sample
from group_sessions import set_session
from history import RECORDER, Entry, History, Partition, RecordId
from judge import Allowed, Evidence, judge
from kafka_records import produce
from processes import children_of, is_running
from replica import Replica, replica, set_trigger, wait_until, write_function
from scenario import Report
from ways import AT_ONCE, IN_ORDER, LONGER_STALL_SECONDS, Way

from headrace.runtime.settings.durations import parse_duration

SESSION_SECONDS = 2.0
WORKERS = 2
HANDLER_SECONDS = 0.005
_SAMPLE_SECONDS = 0.1


def steady(seconds: float) -> str:
    """A handler that takes so long for every record."""
    return f"""
{RECORDER}
    def handler(context, event):
        note("START", event)
        time.sleep({seconds / 2})
        note("TICK", event)
        time.sleep({seconds / 2})
        note("END", event)
"""


HANDLER = steady(HANDLER_SECONDS)
LONG_SECONDS, LONG_EVERY, OCCUPIED_SECONDS = 0.3, 50, 10
# Who goes on beside a successor is seen: it is in a long record, and says so all the time.
LONG_AT_TIMES = f"""
{RECORDER}
    OCCUPIED = FOLDER / f"occupied-{{REPLICA}}"

    def handler(context, event):
        note("START", event)
        is_long = (event.offset + 7 * event.shard_id) % {LONG_EVERY} == 0
        usual = {LONG_SECONDS} if is_long else {HANDLER_SECONDS}
        seconds = {OCCUPIED_SECONDS} if OCCUPIED.exists() else usual
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, seconds / 2, 0.01))
            note("TICK", event)
        note("END", event)
"""
LONG_AT_TIMES_SECONDS = HANDLER_SECONDS + (LONG_SECONDS - HANDLER_SECONDS) / LONG_EVERY
"""The mean."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to which processor, and when."""

    pid: int
    ns: int


class Load:
    """Records in a topic, replicas of a function that handle them, and somebody who watches the commits."""

    def __init__(  # what a load is made of
        self,
        broker: Broker,
        folder: Path,
        records: int,
        *,
        partitions: int = 12,
        handler: str = HANDLER,
        brokers: str = "",
        fields: dict[str, object] | None = None,
        body_bytes: int = 8,
        way: Way = IN_ORDER,
        arguments: Sequence[str] = (),
        **attributes: object,
    ) -> None:
        self.broker = broker
        self.partitions = partitions
        self.topic = broker.create_topic(partitions)
        self.group = f"group-{self.topic}"
        self.records = records
        self._body_bytes = body_bytes
        session = {"sessionTimeout": f"{SESSION_SECONDS:g}s"} | attributes
        if way.protocol == "consumer":
            seconds = parse_duration(str(session.pop("sessionTimeout")))
            set_session(broker, self.group, seconds)
        self._attributes = way.attributes | session
        self._handler = handler if way.at_once == 1 else AT_ONCE
        self._fields = fields or {}
        self._way = way
        self._arguments = arguments
        self.function = self.write(folder / "f", brokers or broker.bootstrap)
        self._history = History(self.function)
        self.replicas: list[Replica] = []
        self._started: list[Replica] = []
        self.samples: list[Sample] = []
        self._killed: dict[int, int] = {}  # processes, and until when they ran
        self._stack = ExitStack()
        self._count = 0

    def write(self, folder: Path, brokers: str) -> Path:
        """The function, at another address of the broker if need be. All write one history."""
        target = getattr(self, "function", folder)
        handler = self._handler.replace("FOLDER", f"pathlib.Path({str(target)!r})")
        write_function(folder, handler, brokers, [self.topic], WORKERS, **self._attributes)
        return set_trigger(folder, **self._fields)

    def __enter__(self) -> Self:
        self._stack.enter_context(_sampled(self.broker, self.group, self.samples))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, function: Path | None = None, variables: Mapping[str, str] | None = None) -> Replica:
        """One more. `variables` are added to its environment."""
        self._count += 1
        name = f"-{self._count}"
        running = self._stack.enter_context(
            replica(function or self.function, *self._arguments, name=name, variables=variables)
        )
        self.replicas.append(running)
        self._started.append(running)
        return running

    def produce(self) -> None:
        """All records, evenly."""
        keys = self._way.keys if self._way.ordering == "key" else 0
        produce(self.broker, self.topic, self.records, self.partitions, self._body_bytes, keys=keys)

    def occupy(self, victim: Replica) -> None:
        """Each record that its workers start from now on takes longer than any session (LONG_AT_TIMES)."""
        (self.function / f"occupied-{victim.process.pid}").touch()

    def free(self, victim: Replica) -> None:
        """Those that start from now on take no longer than others."""
        (self.function / f"occupied-{victim.process.pid}").unlink(missing_ok=True)

    def kill(self, victim: Replica) -> Fault:
        """kill -9."""
        self.replicas.remove(victim)
        alive = list(filter(is_running, children_of(victim.process.pid)))
        fault = Fault(victim.process.pid, time.monotonic_ns())
        self._killed |= dict.fromkeys(alive, fault.ns)
        victim.kill()
        return fault

    @property
    def history(self) -> list[Entry]:
        """So far."""
        self._history.read_on()
        return self._history.entries

    @property
    def produced(self) -> set[tuple[str, int, int]]:
        """Records are spread evenly."""
        return {(self.topic, n % self.partitions, n // self.partitions) for n in range(self.records)}

    @property
    def ends(self) -> dict[Partition, int]:
        """Where the partitions end: what is committed at last."""
        return {(self.topic, n): -(-(self.records - n) // self.partitions) for n in range(self.partitions)}

    @property
    def in_hand(self) -> int:
        """Records that a replica is in at most."""
        return WORKERS * self._way.at_once

    def is_busy(self, left: int = 0) -> bool:
        """More than `left` records have still to be handled."""
        self._history.read_on()
        return len(self._history.ended) < self.records - left

    def begin(self, *functions: Path) -> None:
        """A replica of each function; records, once each has partitions; and all have handled something."""
        for function in functions:
            self.start(function)
        for running in self.replicas:
            running.wait_ready()
        wait_until(lambda: all(running.committed() for running in self.replicas), about=self.replicas[0])
        self.produce()
        pids = {running.process.pid for running in self.replicas}
        wait_until(lambda: pids <= {it.replica for it in self.history}, about=self.replicas[0])

    def finish(self, seconds: float = 300) -> None:
        """All is handled and committed, or time is up; then everybody stops."""
        ends = self.ends
        try:
            wait_until(lambda: bool(self.samples) and self.samples[-1].offsets == ends, seconds)
        except TimeoutError:
            print(f"not all was handled and committed within {seconds:g} s", flush=True)
            self._show_stall()
        for running in self.replicas:
            running.stop()

    def _show_stall(self) -> None:
        """What each replica says of the partitions that aren't at their end, and of its workers."""
        for running in self.replicas:
            trigger = running.trigger()
            print(f"{running.log_path.name} /ready: {running.get('/ready')}")
            for row in trigger["partitions"]:
                if row["committed"] != self.ends[self.topic, row["partition"]]:
                    print(f"  {row}")
            for worker in trigger["workers"]:
                print(f"  {worker}", flush=True)

    def check(
        self,
        report: Report,
        number: int,
        allowed: Allowed,
        *,
        thawed: Collection[tuple[int, RecordId]] = (),
        given_up: Mapping[RecordId, int] | None = None,
        failing: Collection[RecordId] = (),
    ) -> None:
        """What every storm has to show.

        Replicas that lost their membership may repeat what they had: on a busy machine, a heartbeat may come
        too late. How many may is bounded.
        """
        late = self.lost_memberships()
        allowed = replace(
            allowed,
            repeats=allowed.repeats + self.may_repeat(late),
            cut_off=allowed.cut_off + self.in_hand * len(late),
            stall_seconds=allowed.stall_seconds + LONGER_STALL_SECONDS * (self._way.at_once > 1),
        )
        evidence = Evidence(
            self.produced,
            self.ends,
            self.history,
            list(self.samples),
            given_up=given_up or {},
            thawed=thawed,
            alive_until=self._killed,
            memberships_lost=len(late),
            failing=failing,
        )
        judge(evidence, allowed, report, number, self._way)
        failed = sum(len(running.log_times("a commit failed")) for running in self._started)
        report.add("commits that failed", failed, 0, 1e9, number)
        # Where records fail, tracebacks are their handler's.
        errors = ("a bug of Headrace",) if given_up or failing else ("a bug of Headrace", "Traceback")
        wrong = sum(any(error in text for error in errors) for text in self._logs())
        report.add("logs with an error of Headrace's own", wrong, 0, 0, number)

    def _logs(self) -> Iterator[str]:
        for path in self.function.parent.glob("*/replica*.txt"):
            yield path.read_text()

    def lost_memberships(self) -> list[Fault]:
        """Those that their replicas have noticed."""
        since_boot = time.time() - time.monotonic()
        return [
            Fault(running.process.pid, int((said - since_boot) * 1e9))
            for running in self._started
            for said in running.log_times("the membership in the group is lost")
        ]

    def may_repeat(self, faults: list[Fault]) -> int:
        """In flight, and settled since the last commit."""
        history = self.history
        return sum(self.in_hand + len(self._uncommitted(fault, history)) for fault in faults)

    def handled_unknowing(self, fault: Fault, seconds: float = SESSION_SECONDS + 1) -> int:
        """What it handled frozen or cut off, and still a member: if it is thrown out, it can't commit."""
        end_ns = fault.ns + int(min(seconds, SESSION_SECONDS + 1) * 1e9)
        own = (it for it in self.history if it.what == "END" and it.replica == fault.pid)
        return sum(fault.ns < it.ns < end_ns for it in own)

    def _uncommitted(self, fault: Fault, history: list[Entry]) -> list[Entry]:
        """What its victim had handled, and the broker didn't know when it was asked last."""
        known = [sample.offsets for sample in self.samples if sample.ns <= fault.ns]
        committed = known[-1] if known else {}
        return [
            it
            for it in history
            if it.what == "END"
            and it.replica == fault.pid
            and it.ns <= fault.ns
            and it.offset >= committed.get(it.key, 0)
        ]

    def resumed_seconds(self, fault: Fault) -> float:
        """From a fault until others have started records of all partitions that were its victim's."""
        last: dict[Partition, Entry] = {}
        found: dict[Partition, int] = {}
        for it in self.history:
            if it.what == "START" and it.ns <= fault.ns:
                last[it.key] = it
            elif it.what == "START" and it.replica != fault.pid:
                found.setdefault(it.key, it.ns)
        owned = [key for key, entry in last.items() if entry.replica == fault.pid]
        return max(((found[key] - fault.ns) / 1e9 for key in owned if key in found), default=0)


def pause(low: float, high: float) -> None:
    """A random time; nothing waits for its end but the next fault."""
    time.sleep(random.uniform(low, high))


@contextmanager
def _sampled(broker: Broker, group: str, samples: list[Sample]) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_sample(broker, group, samples, over.is_set)))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def _sample(broker: Broker, group: str, samples: list[Sample], is_over: Callable[[], bool]) -> None:
    """Through brokers that come and go."""
    while not is_over():
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap, request_timeout_ms=3000)
        try:
            await admin.start()
            while not is_over():
                found = await admin.list_consumer_group_offsets(group)
                offsets = {(tp.topic, tp.partition): it.offset for tp, it in found.items()}
                samples.append(Sample(time.monotonic_ns(), offsets))
                await asyncio.sleep(_SAMPLE_SECONDS)
        except (KafkaError, OSError):
            await asyncio.sleep(_SAMPLE_SECONDS)
        finally:
            await admin.close()
