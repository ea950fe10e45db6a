"""Explicit acks: which count, and for which record: runtime/dispatch/acks, and the worker's end of them."""

from mutant import Mutant

_SIMULATION = "tests/simulation/test_simulation.py::test_what_a_seed_has_found_is_mended"
_OWNED = "tests/runtime/dispatch/test_partition_acks.py"
_VIEW = "tests/runtime/worker/test_partition_view.py"

MUTANTS = (
    Mutant(
        "logs",
        "L1",
        "acks of a log before settle records of the one that has its name",
        "runtime/dispatch/partition_acks.py",
        "        if partition.log.has(said.log, said.offset):",
        "        if partition:",
        f"{_SIMULATION}[13]",
    ),
    Mutant(
        "spanned",
        "never skipped",
        "a cumulative ack settles what was nacked below it",
        "runtime/partitions/partition.py",
        "if at < first}",
        "if at < first and not partition}",
        f"{_SIMULATION}[22]",
    ),
    Mutant(
        "beyond-the-end",
        "L1",
        "an ack of the offset behind the last record settles the one that is still to come",
        "runtime/dispatch/partition_acks.py",
        "not 0 <= ack.first <= ack.offset < end:",
        "not 0 <= ack.first <= ack.offset <= end:",
        f"{_OWNED}::test_an_ack_of_a_record_that_is_still_to_come_is_refused",
    ),
    Mutant(
        "to-other-groups",
        "L1",
        "what a worker acks settles records of another group on the same topic, which has not handled them",
        "runtime/dispatch/ack_router.py",
        "targets = [sender] if is_senders else self._targets",
        "targets = self._targets",
        f"{_OWNED}::test_what_a_worker_acks_of_its_own_group_counts_for_no_other",
    ),
    Mutant(
        "still-owned",
        "L6",
        "acks are accepted of partitions that have left",
        "runtime/dispatch/partition_acks.py",
        "        self.owned -= gone\n",
        "",
        f"{_OWNED}::test_what_has_left_is_not_acked_here_and_what_stays_is",
    ),
    Mutant(
        "early-and-lost",
        "L2",
        "acks that come before the start of their partition is known are forgotten",
        "runtime/dispatch/partition_acks.py",
        "            self._early.append(ack)\n",
        "",
        f"{_OWNED}::test_acks_that_come_before_a_start_is_known_count_once_it_is",
    ),
    Mutant(
        "joined-across",
        "L1",
        "acks of two partitions whose offsets follow each other are joined into one of the first",
        "runtime/workers/receiver.py",
        "offset == self._next_acked and head == self._open_ack_head:",
        "offset == self._next_acked:",
        "tests/runtime/workers/test_receiver_acks.py::test_they_come_out_as_they_went_in",
    ),
    Mutant(
        "slot-of-another-lane",
        "L1",
        "an ack that follows in the slot on one of another partition counts for that",
        "runtime/wire/progress_slot.py",
        "        if offset == self._end and lane_id == self._lane_id:",
        "        if offset == self._end:",
        "tests/runtime/wire/test_ack_slot.py::test_acks_that_follow_each_other_are_one_span",
    ),
    Mutant(
        "acked-once-for-all",
        "L9",
        "a record that came again is never acked, where the span before ended with it",
        "runtime/workers/receiver.py",
        "first = self._acked.end if acked.number == self._acked.number else acked.first",
        "first = self._acked.end if acked.lane_id == self._acked.lane_id else acked.first",
        "tests/runtime/workers/test_receiver.py::test_a_record_that_comes_again_may_be_acked_again",
    ),
    Mutant(
        "skips-what-failed",
        "L1",
        "a worker doesn't handle a record that has failed, for a late ack of its last delivery",
        "runtime/worker/api/partition_view.py",
        "return is_acked and attempt == 1",
        "return is_acked",
        f"{_VIEW}::test_a_record_that_has_failed_is_handled_again_though_its_last_delivery_is_acked_late",
    ),
    Mutant(
        "runs-the-acked",
        "L2",
        "a worker handles what lies below an ack of all up to one that waits there",
        "runtime/worker/api/partition_view.py",
        "            self._acked_below = max(self._acked_below, offset + 1)\n",
        "            self._acked.add(offset)\n",
        f"{_VIEW}::test_a_record_that_was_acked_while_it_waits_is_not_handled",
    ),
)
