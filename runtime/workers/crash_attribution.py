"""Whose fault it was that a worker process died: what becomes of the records that it had started. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from headrace.runtime.processes import describe_exit
from headrace.runtime.workers.in_flight import Run


@dataclass(frozen=True, slots=True)
class KillReason:
    """Why the runtime kills a worker, where that counts against what it runs as `seq`.

    `is_certain`: against each record of a batch; else they are suspects.
    """

    seq: int
    reason: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended. `verdict` is of a kill that was ours, and None where that blames nobody.

    `why_killed`: for people, where the kill was ours.
    """

    worker_index: int
    exit_code: int
    is_kill_ours: bool
    verdict: KillReason | None = None
    why_killed: str = ""

    @property
    def reason(self) -> str:
        """Of what ran, where that failed."""
        died = f"worker {self.worker_index} died while running it ({describe_exit(self.exit_code)})"
        return died if self.verdict is None else self.verdict.reason

    def at(self, place: str) -> "ProcessExit":
        """The same, and where the handler was when it was killed; empty where that isn't known."""
        if not place:
            return self
        verdict = self.verdict and replace(self.verdict, reason=f"{self.verdict.reason}, in {place}")
        return replace(self, verdict=verdict, why_killed=f"{self.why_killed}, in {place}")


class CrashOutcome(Enum):
    """What is to become of records that had started."""

    FAILED = "failed"
    SUSPECTED = "suspected"
    RETURNED = "returned"


def attribute(seq: int, started: Sequence[Run], death: ProcessExit) -> tuple[CrashOutcome, str]:
    """What becomes of all that was started when `seq` ran: one record or a batch; and why.

    A verdict on another record counts against nobody: the worker had moved on when the kill came.
    """
    verdict = death.verdict if death.verdict is not None and death.verdict.seq == seq else None
    if death.is_kill_ours and verdict is None:
        return CrashOutcome.RETURNED, death.why_killed
    is_one = sum(len(run.records) for run in started) == 1
    is_certain = is_one or (verdict is not None and verdict.is_certain)
    return CrashOutcome.FAILED if is_certain else CrashOutcome.SUSPECTED, replace(
        death, verdict=verdict
    ).reason


def attribute_concurrent(
    started: Sequence[Run], death: ProcessExit, *, has_waiting: bool = False
) -> list[CrashOutcome]:
    """What becomes of each of those that ran beside each other.

    It is never known which of them has ended the process, or has let no other go on until one was late: all
    are suspects, unless one was alone. Then it is one too where others had been decoded (`has_waiting`): that
    may have taken the memory. A verdict on a record that is over counts against nobody.
    """
    verdict = death.verdict
    is_over = verdict is not None and all(run.first_seq != verdict.seq for run in started)
    if death.is_kill_ours and (verdict is None or is_over):
        return [CrashOutcome.RETURNED] * len(started)
    is_certain = len(started) == 1 and not has_waiting
    return [CrashOutcome.FAILED if is_certain else CrashOutcome.SUSPECTED] * len(started)
