"""Attribution of a worker process's death to the records that it had started.

A process that died by itself has failed the record that it ran. One that the runtime has killed has failed
none, unless the kill was for what the handler did (a KillReason). If several records may have been the
cause, all are suspects. `settle_exit` decides on all that a process held; `attribute` and
`attribute_concurrent` are the rules, and pure.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from headrace.runtime.processes import describe_exit
from headrace.runtime.wire.progress_slot import Progress, ProgressSlot
from headrace.runtime.workers.in_flight import InFlight, Run
from headrace.runtime.workers.listener import WorkerListener

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KillReason:
    """Reason for which the runtime kills a worker, if that blames the record, or batch, that runs as `seq`.

    `is_certain`: a batch has failed as a whole; otherwise its records are suspects.
    """

    seq: int
    reason: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """End of a worker process. `kill_reason`: of a kill that was ours; None if that blames no record.

    `why_killed`: for people, if the kill was ours. `violation`: the protocol violation of the worker, if any.
    """

    worker_index: int
    exit_code: int
    is_kill_ours: bool
    kill_reason: KillReason | None = None
    why_killed: str = ""
    violation: str = ""

    @property
    def reason(self) -> str:
        """Reason for the records that ran, if they fail."""
        died = f"worker {self.worker_index} died while running it ({describe_exit(self.exit_code)})"
        return died if self.kill_reason is None else self.kill_reason.reason

    def at(self, place: str) -> "ProcessExit":
        """Return a copy that names the place where the handler was killed; `place` is empty if unknown."""
        if not place:
            return self
        blamed = self.kill_reason
        if blamed is not None:
            blamed = replace(blamed, reason=f"{blamed.reason}, in {place}")
        return replace(self, kill_reason=blamed, why_killed=f"{self.why_killed}, in {place}")


class CrashOutcome(Enum):
    """Outcome of records that had started when their process ended."""

    FAILED = "failed"
    SUSPECTED = "suspected"
    RETURNED = "returned"


def attribute(seq: int, started: Sequence[Run], process_exit: ProcessExit) -> tuple[CrashOutcome, str]:
    """Return the outcome, and its reason, of the record or batch that had started when `seq` ran.

    A kill for another record counts against nobody: the worker had moved on when the kill came.
    """
    kill_reason = process_exit.kill_reason
    if kill_reason is not None and kill_reason.seq != seq:
        # The kill was for another record than the one that runs: the worker had moved on by then.
        kill_reason = None
    if process_exit.is_kill_ours and kill_reason is None:
        return CrashOutcome.RETURNED, process_exit.why_killed
    is_one = sum(len(run.records) for run in started) == 1
    is_certain = is_one or (kill_reason is not None and kill_reason.is_certain)
    outcome = CrashOutcome.FAILED if is_certain else CrashOutcome.SUSPECTED
    return outcome, replace(process_exit, kill_reason=kill_reason).reason


def attribute_concurrent(
    started: Sequence[Run], process_exit: ProcessExit, *, has_waiting: bool = False
) -> list[CrashOutcome]:
    """Return the outcome of each of the records that ran concurrently.

    Nobody can know which of them has ended the process, or has held up the event loop until another was late:
    all are suspects. One that ran alone has failed, unless others had been decoded (`has_waiting`), which may
    have taken the memory: then it is a suspect. A kill for a record that is over counts against nobody.
    """
    kill_reason = process_exit.kill_reason
    is_over = kill_reason is not None and all(run.first_seq != kill_reason.seq for run in started)
    if process_exit.is_kill_ours and (kill_reason is None or is_over):
        return [CrashOutcome.RETURNED] * len(started)
    is_certain = len(started) == 1 and not has_waiting
    return [CrashOutcome.FAILED if is_certain else CrashOutcome.SUSPECTED] * len(started)


def settle_exit(
    process_exit: ProcessExit,
    slot: ProgressSlot,
    progress: Progress | None,
    in_flight: InFlight,
    listener: WorkerListener,
) -> bool:
    """Give each record that a process held an outcome, once it is reaped. Return whether it had started one.

    `progress`: its slot, read after all its frames were taken in; None if some of them couldn't be.
    """
    if in_flight.overlaps:
        has_started = _settle_concurrent(process_exit, slot, progress, in_flight, listener)
    else:
        has_started = _settle_in_turn(process_exit, slot, progress, in_flight, listener)
    slot.close()
    # The records that are left had not started: they are handed out again, at the same attempt.
    for run in in_flight.take_all():
        listener.on_returned(run.lane, run.records)
    listener.on_frames_read()
    return has_started


def _settle_in_turn(
    process_exit: ProcessExit,
    slot: ProgressSlot,
    progress: Progress | None,
    in_flight: InFlight,
    listener: WorkerListener,
) -> bool:
    """Decide for a process that runs one record, or batch, after another. Return whether one had started."""
    if progress is None and process_exit.violation and (seq := _accused(slot, in_flight)) is not None:
        progress = Progress(seq, is_running=True, since_ns=0)
        process_exit = replace(
            process_exit, kill_reason=KillReason(seq, process_exit.violation, is_certain=False)
        )
        # Its slot can't be trusted on the records before: they come back, though they may have succeeded.
        first = (in_flight.batch_of(seq) or range(seq, seq + 1)).start
        for lane, records in in_flight.settle_before(first):
            listener.on_returned(lane, records)
    # It died between two records, or its last frames can't be read and it did not lie: nobody is to blame.
    if progress is None or not progress.is_running:
        return False
    started = in_flight.take_started(progress.seq)
    _report(process_exit, started, *attribute(progress.seq, started, process_exit), listener)
    return bool(started)


def _settle_concurrent(
    process_exit: ProcessExit,
    slot: ProgressSlot,
    progress: Progress | None,
    in_flight: InFlight,
    listener: WorkerListener,
) -> bool:
    """Decide for a process that may run several records at once. Return whether one had started."""
    if progress is None and not process_exit.violation:
        return False
    seqs = [running.seq for running in in_flight.running(slot)]
    if progress is None:
        # By the slots nothing runs, and yet it lied: the first record that it holds is the one that may have
        # begun.
        seqs = seqs or [run.first_seq for run in in_flight.runs][:1]
        kill_reason = KillReason(min(seqs, default=-1), process_exit.violation, is_certain=False)
        process_exit = replace(process_exit, kill_reason=kill_reason)
    taken = [(seq, it) for seq in seqs if (it := in_flight.take(seq)) is not None]
    started = [Run(lane, seq, records) for seq, (lane, records) in taken]
    outcomes = attribute_concurrent(started, process_exit, has_waiting=slot.calls.has_waiting)
    for run, outcome in zip(started, outcomes, strict=True):
        reason = process_exit.why_killed if outcome is CrashOutcome.RETURNED else process_exit.reason
        _report(process_exit, [run], outcome, reason, listener)
    return bool(started)


def _accused(slot: ProgressSlot, in_flight: InFlight) -> int | None:
    """Return the record that a process ran when it lied: by its slot, or the first that it may have begun.

    If none were blamed, a handler that lies each time would be given its record for ever.
    """
    if running := in_flight.running(slot):
        return running[0].seq
    runs = in_flight.runs
    return runs[0].first_seq if runs and runs[0].first_seq < slot.read().seq else None


def _report(
    process_exit: ProcessExit,
    started: Sequence[Run],
    outcome: CrashOutcome,
    reason: str,
    listener: WorkerListener,
) -> None:
    if started and outcome is CrashOutcome.RETURNED:
        message = "worker %d was killed in %s: %s; what isn't acked of that is delivered again"
        logger.warning(message, process_exit.worker_index, _described(started), reason)
    among = sum(len(run.records) for run in started)
    for lane, records in ((run.lane, run.records) for run in started):
        # A client that waits for an HTTP response gets one now, before the outcome.
        lane.on_cut_short("died")
        if outcome is CrashOutcome.FAILED:
            listener.on_failed(lane, records, reason, among)
        elif outcome is CrashOutcome.SUSPECTED:
            listener.on_suspected(lane, records, reason)
        else:
            listener.on_returned(lane, records)


def _described(runs: Sequence[Run]) -> str:
    """Return `orders/0 offset 4, orders/1 offsets 7 to 9`: all runs, in one line."""
    spans = [(run.lane.key, run.lane.spans(run.records)) for run in runs]
    firsts_and_lasts = [(key, found[0][0], found[-1][1] - 1) for key, found in spans]
    return ", ".join(
        f"{key} offset {first}" if first == last else f"{key} offsets {first} to {last}"
        for key, first, last in firsts_and_lasts
    )
