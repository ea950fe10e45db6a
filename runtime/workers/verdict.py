"""Whose fault it was that a worker process died: what becomes of the records that it had started. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from headrace.runtime.processes import describe_exit
from headrace.runtime.workers.in_flight import Run


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the runtime kills a worker, where that counts against what it runs as `seq`.

    `is_certain`: against each record of a batch; else they are suspects.
    """

    seq: int
    reason: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended. `verdict` is of a kill that was ours, and None where that blames nobody.

    `why_killed`: for people, where the kill was ours.
    """

    worker_index: int
    exit_code: int
    is_kill_ours: bool
    verdict: Verdict | None = None
    why_killed: str = ""


class Fate(Enum):
    """What is to become of records that had started."""

    FAILED = "failed"
    SUSPECTED = "suspected"
    RETURNED = "returned"


def judge(seq: int, started: Sequence[Run], death: Death) -> tuple[Fate, str]:
    """What becomes of all that was started when `seq` ran: one record or a batch; and why.

    A verdict on another record counts against nobody: the worker had moved on when the kill came.
    """
    verdict = death.verdict if death.verdict is not None and death.verdict.seq == seq else None
    if death.is_kill_ours and verdict is None:
        return Fate.RETURNED, death.why_killed
    died = f"worker {death.worker_index} died while running it ({describe_exit(death.exit_code)})"
    reason = verdict.reason if verdict is not None else died
    is_one = sum(len(run.records) for run in started) == 1
    is_certain = is_one or (verdict is not None and verdict.is_certain)
    return Fate.FAILED if is_certain else Fate.SUSPECTED, reason
