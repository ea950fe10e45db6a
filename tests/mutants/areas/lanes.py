"""What waits of a partition, in which order it goes, and how much of it: runtime/partitions."""

from mutant import Change, Mutant

_SIMULATION = "tests/simulation/test_simulation.py::test_what_a_seed_has_found_is_mended"

MUTANTS = (
    Mutant(
        "keys-overlap",
        "L4",
        "the next record of a key is handed out while one of it runs",
        "runtime/partitions/keyed.py",
        "is_free = not self.in_flight_count and self.state",
        "is_free = self.state",
        "tests/runtime/partitions/test_keyed.py::test_a_key_waits_for_what_is_in_flight_of_it",
    ),
    Mutant(
        "left-keys-go-on",
        "L4",
        "a key that waits for its next attempt goes on where its partition has left",
        "runtime/partitions/keyed.py",
        "        for lane in self.lanes_by_key.values():\n            lane.revoke()\n",
        "",
        "tests/runtime/partitions/test_keyed.py::test_nothing_goes_once_the_partition_leaves",
    ),
    Mutant(
        "untold-overtaking",
        "L2",
        "more records overtake others than a commit has place to tell of",
        "runtime/partitions/flow_control.py",
        "return min(self.left_to_overtake(lane), left)",
        "return left",
        "tests/runtime/partitions/test_keyed.py::test_no_more_overtake_a_record_than_a_commit_can_tell",
    ),
    Mutant(
        "settles-between",
        "L5",
        "records with others between them settle those too",
        "runtime/partitions/record_buffer.py",
        "        if last - first + 1 == len(units):",
        "        if len(units) > 1:",
        "tests/runtime/partitions/test_keyed.py::test_each_key_is_in_order_and_never_beside_itself_and_all_ends",
    ),
    Mutant(
        "repeats-the-handled",
        "kill -9",
        "where a worker has died, what others have handled comes again with what was its",
        "runtime/partitions/partition.py",
        "        self.fetched_before = max(end, self.fetched_before)\n",
        "",
        "tests/runtime/partitions/test_redeliver.py"
        "::test_what_comes_again_is_what_nobody_who_lives_has_handled_and_nobody_has_acked",
    ),
    Mutant(
        "delivers-the-acked",
        "L2",
        "records that were acked before they were fetched are delivered",
        "runtime/partitions/partition.py",
        "        elif is_acked_ahead:\n            lane.put(records, ledger)\n",
        "",
        "tests/runtime/partitions/test_keyed.py::test_records_that_were_acked_under_the_last_owner_are_not_here",
    ),
    Mutant(
        "behind-a-recall",
        "L3",
        "records are handed out behind those that were asked to come back",
        "runtime/partitions/partition_lane.py",
        "return not (self.is_recalled or self._is_alone or",
        "return not (self._is_alone or",
        f"{_SIMULATION}[966]",
    ),
    Mutant(
        "no-room-for-a-plan",
        "L9",
        "a planned batch that is larger than the buffer is never fetched as a whole",
        "runtime/partitions/flow_control.py",
        "return max(missing, self.waiting // 2)",
        "return min(missing, self.waiting - offsets.ledger.open_count)",
        "tests/runtime/dispatch/test_batches.py"
        "::test_room_is_there_for_the_whole_of_a_plan_whatever_the_capacity",
    ),
    Mutant(
        "stands-with-its-key",
        "L9",
        "a key that waits for its next attempt keeps its whole partition from being fetched",
        "runtime/partitions/flow_control.py",
        "            is_moving = lane.out_count > 0 or lane.is_deliverable",
        "            is_moving = not lane.is_idle",
        "tests/runtime/partitions/test_flow_control.py::test_a_key_that_stands_keeps_no_others_from_being_fetched",
    ),
    Mutant(
        "first-of-its-chunk",
        "L8",
        "a dead letter of an undecoded batch is made of the first record of that",
        "runtime/partitions/chunk.py",
        "chunk.decode(chunk.data, self.offset - chunk.first, must_live=True)",
        "chunk.decode(chunk.data, 0, must_live=True)",
        "tests/runtime/dispatch/test_undecoded_chunks.py"
        "::test_a_processor_that_looks_into_a_batch_sees_the_same_records",
    ),
    Mutant(
        "unordered",
        "L3",
        "what comes back of a key that stands is put before what came back earlier",
        "runtime/partitions/record_buffer.py",
        "        if any(one[-1].offset > other[0].offset for one, other in pairwise(parts)):",
        "        if not parts:",
        f"{_SIMULATION}[105]",
    ),
    Mutant(
        "undecided",
        "L1",
        "a record that fails while a later one of its key stands is not judged",
        "runtime/partitions/partition_lane.py",
        "        if self.state in _MAY_DECIDE_ANEW:",
        "        if self.state is PartitionState.ACTIVE:",
        f"{_SIMULATION}[26]",
        more=(
            Change(
                "runtime/dispatch/failure_handler.py",
                "        if lane.is_undecided and (partition",
                "        if not lane and (partition",
            ),
        ),
    ),
)
