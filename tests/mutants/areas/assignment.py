"""What comes and goes: the life of an assignment, and to which worker its partitions go."""

from mutant import Mutant

_ASSIGNMENT = "runtime/streams/assignment.py"
_GIVEN_BACK = "tests/runtime/streams/test_given_back.py"
_REVOKING = "tests/runtime/dispatch/test_revoking.py"
_ALLOCATORS = "tests/runtime/dispatch/test_allocators.py"

MUTANTS = (
    Mutant(
        "leaves-without-a-commit",
        "clean rebalance",
        "partitions are given back without a last commit",
        _ASSIGNMENT,
        "            self._dispatch.on_revoked(keys)\n            await self.commit(partitions)\n",
        "            self._dispatch.on_revoked(keys)\n",
        f"{_GIVEN_BACK}::test_all_that_is_done_of_it_is_committed_before_others_get_it",
    ),
    Mutant(
        "commits-what-has-left",
        "L6",
        "what has left is still committed by who has it in a list",
        _ASSIGNMENT,
        "                partition.is_replaced = True  # others have it from now on\n",
        "                pass\n",
        f"{_GIVEN_BACK}::test_nothing_of_it_is_committed_after_that_though_the_gate_is_open_for_others",
    ),
    Mutant(
        "lifts-the-lease-of-others",
        "L7",
        "where some partitions leave, the workers of the others may run on after the session",
        _ASSIGNMENT,
        "self._revoke_count -= 1\n                if not (self.partitions or",
        "self._revoke_count -= 1\n                if not (",
        f"{_GIVEN_BACK}::test_the_lease_goes_on_as_long_as_something_stays",
    ),
    Mutant(
        "begins-what-has-left",
        "L4",
        "a partition that leaves while its start is read begins all the same",
        _ASSIGNMENT,
        "            task.cancel()\n            ended.append(task)\n",
        "            ended.append(task)\n",
        f"{_GIVEN_BACK}::test_what_leaves_while_its_start_is_read_never_begins_and_what_comes_with_it_does",
    ),
    Mutant(
        "goes-on-while-leaving",
        "L4",
        "more of a partition is handed out while it is given back",
        "runtime/dispatch/revoking.py",
        "            partition.revoke()\n",
        "",
        f"{_REVOKING}::test_one_that_ends_in_time_is_waited_for_and_nothing_follows_it",
    ),
    Mutant(
        "asks-on-top",
        "L9",
        "a handler that doesn't end in time is killed later than the group was promised",
        "runtime/dispatch/revoking.py",
        "if await self._is_quiet(partitions, wait_seconds - dump_seconds):",
        "if await self._is_quiet(partitions, wait_seconds):",
        f"{_REVOKING}::test_a_handler_that_does_not_end_is_killed_when_its_time_is_over_and_no_later",
    ),
    Mutant(
        "two-workers",
        "L4",
        "a lane of which records are at one worker is offered to another",
        "runtime/dispatch/allocators.py",
        "return not lane.in_flight_count and lane.is_deliverable",
        "return lane.is_deliverable",
        f"{_ALLOCATORS}::test_what_is_at_a_worker_is_not_handed_out_to_another",
    ),
    Mutant(
        "offered-once",
        "L9",
        "a lane that was handed out is never offered again",
        "runtime/dispatch/allocators.py",
        "            since = self._offered_at.pop(lane.id)\n",
        "            since = self._offered_at[lane.id]\n",
        f"{_ALLOCATORS}::test_what_was_taken_may_be_offered_again",
    ),
)
