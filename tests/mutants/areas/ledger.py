"""Ledger and checkpoint, and what the next owner believes of a commit: runtime/partitions/offsets."""

from mutant import Mutant

MUTANTS = (
    Mutant(
        "passes-one",
        "L5",
        "the commit passes a single open record, where the next one is settled",
        "runtime/partitions/offsets/ledger.py",
        "        if first > self._committable:",
        "        if first > self._committable + 1:",
        "tests/runtime/partitions/test_ledger.py::test_a_single_open_record_holds_the_commit_where_the_next_one_is_settled",
    ),
    Mutant(
        "forgets-ahead",
        "L2",
        "an ack that comes before its record is forgotten once that is fetched",
        "runtime/partitions/offsets/ledger.py",
        "                self._settle_fetched(*span)",
        "                pass",
        "tests/runtime/partitions/test_ledger.py::test_an_ack_before_its_fetch_counts_when_the_fetch_gets_there",
    ),
    Mutant(
        "reopens-nothing",
        "L1",
        "what is taken back stays settled where more is settled behind it",
        "runtime/partitions/offsets/ledger.py",
        "(max(low, end), high)",
        "(max(low, first), high)",
        "tests/runtime/partitions/test_pending_produces.py::test_what_is_reopened_is_open_and_all_else_as_it_was",
    ),
    Mutant(
        "ahead",
        "L1",
        "what is taken back stays settled where it lies ahead of the fetch",
        "runtime/partitions/offsets/ledger.py",
        "        self._settled, self._ahead = IntervalSet(), IntervalSet()\n        for low",
        "        self._settled = IntervalSet()\n        for low",
        "tests/simulation/test_simulation.py::test_what_a_seed_has_found_is_mended[7]",
    ),
    Mutant(
        "counts-run-together",
        "never skipped",
        "records that follow each other are committed with the failures of the first",
        "runtime/partitions/offsets/failed_records.py",
        "spans[-1][1:] == (first, failures)",
        "spans[-1][1] == first",
        "tests/runtime/partitions/test_attempts.py"
        "::test_what_a_commit_said_is_known_of_each_record_as_if_it_had_been_said_one_by_one",
    ),
    Mutant(
        "runs-from-elsewhere",
        "L1",
        "a commit with little room leaves out a run of acks, and counts those behind it from before that",
        "runtime/partitions/offsets/checkpoint_text.py",
        '        if left < 0:\n            return ",".join(kept), False\n',
        "        if left < 0:\n            left += len(item) + bool(kept)\n            continue\n",
        "tests/runtime/partitions/test_checkpoint_text.py::test_in_little_room_attempts_come_first_then_the_plan_then_acked_runs",
    ),
    Mutant(
        "carried-elsewhere",
        "L1",
        "acks beside one offset count beside another one that a tool has put there",
        "runtime/partitions/offsets/checkpoint_text.py",
        'crc32(f"{offset}/{state}".encode())',
        "crc32(state.encode())",
        "tests/runtime/partitions/test_checkpoint_text.py"
        "::test_metadata_that_was_carried_to_another_offset_says_nothing_of_it",
    ),
    Mutant(
        "beyond-the-log",
        "L1",
        "a commit's acks of records that are still to be written are believed",
        "runtime/partitions/offsets/checkpoint.py",
        "tuple(span for span in self.acked if span[1] <= end)",
        "self.acked",
        "tests/runtime/partitions/test_attempts.py::test_nothing_beyond_the_end_of_a_log_is_believed",
    ),
)
