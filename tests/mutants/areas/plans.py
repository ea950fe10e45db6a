"""Batches and ranges that come again as they were: their plans, and who keeps them."""

from mutant import Mutant

MUTANTS = (
    Mutant(
        "unplanned",
        "L2",
        "a batch is handed out before a commit has told of it, so nobody could repeat just that one",
        "runtime/partitions/offsets/batch_plan.py",
        "return batch[1] if batch in self._safe else None",
        "return batch[1] if batch else None",
        "tests/runtime/partitions/test_batch_plan.py::test_a_batch_goes_only_once_a_commit_has_told_of_it",
    ),
    Mutant(
        "safe-by-the-last-commit",
        "L2",
        "a commit that ends late vouches for a batch that was dropped and made anew meanwhile",
        "runtime/partitions/offsets/batch_plan.py",
        "        if version == self._version and self.planned is not None:",
        "        if self.planned is not None:",
        "tests/runtime/partitions/test_batch_plan.py"
        "::test_a_commit_says_nothing_of_a_batch_that_was_dropped_and_made_anew_since_it_began",
    ),
    Mutant(
        "dies-for-ever",
        "L9",
        "a batch that kills its worker comes again as it was for ever",
        "runtime/partitions/offsets/batch_plan.py",
        "return self.planned is not None and self._deaths == 1",
        "return self.planned is not None",
        "tests/runtime/partitions/test_batch_plan.py::test_a_batch_comes_again_as_it_was_after_one_death",
    ),
    Mutant(
        "part-of-a-plan",
        "L2",
        "a planned batch goes out again before all of it is fetched",
        "runtime/dispatch/batcher.py",
        "        if partition.missing_of_plan:\n            return None\n",
        "",
        "tests/runtime/dispatch/test_batches.py::test_a_part_keeps_to_its_plan_and_to_the_limits_of_its_records",
    ),
    Mutant(
        "never-full",
        "L9",
        "a batch that isn't full has its whole time again at each look",
        "runtime/dispatch/batcher.py",
        "policy.timeout_seconds - waited if partition.may_grow else 0)",
        "policy.timeout_seconds if partition.may_grow else 0)",
        "tests/runtime/dispatch/test_batches.py::test_what_is_not_handed_out_now_is_in_time",
    ),
    Mutant(
        "second-range",
        "L2",
        "with explicit acks a range goes out while the one before it waits for its ack",
        "runtime/partitions/flow_control.py",
        "return 0 if lane.in_flight_count or _waits_for_range(lane) else NO_LIMIT",
        "return 0 if lane.in_flight_count else NO_LIMIT",
        "tests/runtime/partitions/test_range_partition.py"
        "::test_with_explicit_acks_the_next_range_and_the_end_of_the_plan_wait_for_the_ack",
    ),
    Mutant(
        "acked-inside",
        "L5",
        "an ack of an offset inside an open range settles all of the range",
        "runtime/partitions/partition.py",
        "return first if offset == end - 1 else None",
        "return first",
        "tests/runtime/partitions/test_range_partition.py"
        "::test_an_ack_of_a_range_that_an_earlier_owner_handed_out_names_all_of_it",
    ),
)
