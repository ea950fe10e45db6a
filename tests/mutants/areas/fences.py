"""Who may start a record until when: leases, progress slots, kill lists."""

from mutant import Mutant

_LEASES = "tests/runtime/workers/test_lease.py"
_WORD = "tests/runtime/wire/test_progress_slot.py"
_SLOTS = "tests/runtime/wire/test_call_slots.py"

MUTANTS = (
    Mutant(
        "starts-late",
        "L7",
        "a worker that was frozen starts its next record after its lease",
        "runtime/wire/progress_slot.py",
        "        if now > self._lease_words[0]:\n            self._end(seq)\n        words = self._words\n",
        "        words = self._words\n",
        f"{_WORD}::test_nothing_starts_once_the_lease_is_over_and_what_was_before_is_done",
    ),
    Mutant(
        "starts-a-run-late",
        "L7",
        "after a suspend of the machine a worker starts a run whose lease was over meanwhile",
        "runtime/wire/progress_slot.py",
        "        if self._lease.is_over:\n            self._end(seq)\n        self.enter(seq)\n",
        "        self.enter(seq)\n",
        f"{_WORD}::test_after_a_suspend_of_the_machine_no_run_starts",
    ),
    Mutant(
        "starts-beside-late",
        "L7",
        "a worker that runs several records at once starts one after its lease",
        "runtime/wire/progress_slot.py",
        "        self._check_lease()\n        self.calls.enter(seq, time.monotonic_ns())\n",
        "        self.calls.enter(seq, time.monotonic_ns())\n",
        f"{_SLOTS}::test_once_the_lease_is_over_nothing_is_entered",
    ),
    Mutant(
        "blames-the-end",
        "never skipped",
        "what runs when the lease ends has failed by that",
        "runtime/wire/progress_slot.py",
        "            self.calls.leave_all()\n",
        "",
        f"{_SLOTS}::test_what_runs_when_the_lease_ends_is_not_to_blame_for_that",
    ),
    Mutant(
        "sleeps-through",
        "L7",
        "the time that a machine is suspended doesn't count for leases",
        "runtime/wire/lease.py",
        'getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)',
        "time.CLOCK_MONOTONIC",
        "tests/runtime/wire/test_lease_clock.py::test_it_is_the_clock_that_goes_on_while_a_machine_is_suspended",
    ),
    Mutant(
        "renewed-by-a-late-answer",
        "L9",
        "an answer to an earlier heartbeat, which comes late, shortens the lease",
        "runtime/wire/lease.py",
        "self._known_end_ns = max(self._known_end_ns, end_ns)",
        "self._known_end_ns = end_ns",
        f"{_LEASES}::test_a_lease_is_renewed_while_it_lasts_or_after_it_and_never_shortened",
    ),
    Mutant(
        "ends-with-nothing-held",
        "L9",
        "a lease that was lifted ends by an answer that comes late, and idle workers with it",
        "runtime/wire/lease.py",
        "        self._is_in_force = False\n        self.words[_END]",
        "        self.words[_END]",
        f"{_LEASES}::test_a_lease_that_is_lifted_does_not_end_whatever_is_answered_late",
    ),
    Mutant(
        "blames-the-last",
        "never skipped",
        "where the lease ends between two records, the first has failed by that",
        "runtime/wire/progress_slot.py",
        "        self.leave(seq)\n        self._die()\n",
        "        self._die()\n",
        f"{_WORD}::test_nothing_starts_once_the_lease_is_over_and_what_was_before_is_done",
    ),
    Mutant(
        "hands-out-all-the-same",
        "L7",
        "records are handed out after the end of the lease",
        "runtime/dispatch/dispatcher.py",
        "        if self.lease.is_over:\n            return  # somebody else",
        "        if self.lease.is_over and not self.workers:\n            return  # somebody else",
        "tests/runtime/streams/test_given_back.py::test_nothing_is_handed_out_once_the_lease_is_over",
    ),
)
