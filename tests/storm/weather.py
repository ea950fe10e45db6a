"""What is done to replicas of a load, again and again: kills of workers and of whole ones, joins, leaves."""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from load import Fault, Load, pause
from replica import wait_until
from scenario import Report


@dataclass
class Weather:
    """What was done so far to a load that has `at_least` so many replicas."""

    load: Load
    report: Report
    number: int
    at_least: int
    workers: list[Fault] = field(default_factory=list)
    replicas: list[Fault] = field(default_factory=list)
    changes: int = 0

    def everything(self) -> list[Callable[[], None]]:
        """All that is done."""
        return [self.kill_worker, self.kill_replica, self.join, self.leave]

    def strike(self) -> None:
        """Each thing once, in any order."""
        everything = self.everything()
        for strike in random.sample(everything, len(everything)):
            pause(0.2, 2)
            strike()

    def kill_worker(self) -> None:
        """It is replaced."""
        victim = random.choice(self.load.replicas)
        pids = wait_until(victim.worker_pids, about=victim)
        self.workers.append(Fault(victim.process.pid, time.monotonic_ns()))
        os.kill(random.choice(pids), signal.SIGKILL)

    def kill_replica(self) -> None:
        """Who started it starts it again."""
        self.replicas.append(self.load.kill(random.choice(self.load.replicas)))
        pause(0, 1)
        self.load.start()

    def join(self) -> None:
        """One more."""
        self.load.start().wait_ready()
        self.changes += 1

    def leave(self) -> None:
        """One less, in peace."""
        while len(self.load.replicas) <= self.at_least:
            self.join()
        leaver = random.choice(self.load.replicas)
        leaver.url  # noqa: B018  # from then on it hears signals
        self.load.replicas.remove(leaver)
        self.report.add("exit code", leaver.stop(), 0, 0, self.number)
        self.changes += 1

    def say(self) -> None:
        """In the first line of the storm."""
        self.report.add_faults("kills of a worker", len(self.workers), self.number)
        self.report.add_faults("kills of a replica", len(self.replicas), self.number)
        self.report.add_faults("joins and leaves", self.changes, self.number)
