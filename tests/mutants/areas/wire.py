"""Between a processor and its workers: runs, what comes back of them, and what is said of them."""

from mutant import Mutant

_INBOX = "tests/runtime/worker/test_inbox.py"
_IN_FLIGHT = "tests/runtime/workers/test_in_flight.py"

MUTANTS = (
    Mutant(
        "behind-a-failure",
        "L3",
        "what was on its way behind a record that has failed is handled before that comes again",
        "runtime/worker/inbox.py",
        "                self._closed_epochs[run.header.lane_id] = run.header.epoch\n",
        "                pass\n",
        f"{_INBOX}::test_after_a_failure_runs_of_that_epoch_come_back_and_later_ones_are_taken",
    ),
    Mutant(
        "closes-the-next-epoch",
        "L9",
        "what is handed out after a failure goes back and forth",
        "runtime/worker/inbox.py",
        "if self._closed_epochs.get(run.header.lane_id, -1) >= run.header.epoch:",
        "if self._closed_epochs.get(run.header.lane_id, -1) + 1 >= run.header.epoch:",
        f"{_INBOX}::test_after_a_failure_runs_of_that_epoch_come_back_and_later_ones_are_taken",
    ),
    Mutant(
        "gives-back-what-ran",
        "L2",
        "a worker gives back a whole run, of which some records were handled",
        "runtime/worker/inbox.py",
        "return (end - count, end) if count else None",
        "return (self.header.first_seq, end) if count else None",
        f"{_INBOX}::test_a_recall_during_a_run_splits_it_without_a_gap_or_an_overlap",
    ),
    Mutant(
        "decodes-unseen",
        "L9",
        "a record that kills its worker as it is decoded costs no attempt, and does so for ever",
        "runtime/worker/inbox.py",
        "            self._slot.enter_run(run.header.first_seq)\n            run.open()\n",
        "            run.open()\n            self._slot.enter_run(run.header.first_seq)\n",
        f"{_INBOX}::test_a_run_is_entered_before_it_is_decoded",
    ),
    Mutant(
        "settles-what-runs",
        "L5",
        "the record that a worker is in counts as done with those before it",
        "runtime/workers/in_flight.py",
        "            done = run.records[: seq - run.first_seq]\n",
        "            done = run.records[: seq - run.first_seq + 1]\n",
        f"{_IN_FLIGHT}::test_what_lies_before_a_seq_is_settled_once",
    ),
    Mutant(
        "takes-back-unasked",
        "L9",
        "a worker that gives back what nobody asked for gets it again, for ever",
        "runtime/workers/in_flight.py",
        "if run is None or not run.may_be_returned:",
        "if run is None:",
        f"{_IN_FLIGHT}::test_tails_come_back_and_the_rest_stays",
    ),
    Mutant(
        "acks-of-others",
        "L1",
        "a worker's ack of records that it was never given is taken for true",
        "runtime/workers/receiver.py",
        "        if not self._in_flight.has_sent(*acked[:3]):\n",
        "        if acked.first >= acked.end:\n",
        "tests/runtime/workers/test_receiver.py::test_acks_of_what_it_was_not_given_are_refused",
    ),
    Mutant(
        "settled-twice",
        "L2",
        "where records run beside each other, one whose end was told keeps its place as running",
        "runtime/wire/progress_slot.py",
        "            self._words[WORDS_PER_CALL * place] = 0\n            self._free",
        "            self._free",
        "tests/runtime/wire/test_call_slots.py::test_what_was_entered_and_not_left_runs",
    ),
    Mutant(
        "done-and-unreported",
        "clean rebalance",
        "what a worker has done and not reported isn't in the last commit of a partition",
        "runtime/workers/receiver.py",
        "            self.settle_before(progress.seq)\n        return progress",
        "            pass\n        return progress",
        "tests/simulation/test_simulation.py::test_what_a_seed_has_found_is_mended[37]",
    ),
    Mutant(
        "series-without-end",
        "L9",
        "what handlers publish has no bound together, and a scrape of it no end",
        "runtime/metrics/custom_metrics.py",
        "if self._series_count + published.metric.series_count > MAX_SERIES:",
        "if published.metric.series_count > MAX_SERIES:",
        "tests/runtime/metrics/test_custom_bounds.py::test_all_metrics_of_a_replica_have_one_bound",
    ),
)
