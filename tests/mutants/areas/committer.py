"""What is committed, under whose name, and what is believed of it: runtime/streams/committer.py."""

from mutant import Mutant

_COMMITTER = "runtime/streams/committer.py"
_TESTS = "tests/triggers/kafka/test_kafka_committer.py"
_FAILURES = "tests/triggers/kafka/test_kafka_committer_failures.py"

MUTANTS = (
    Mutant(
        "steps-back",
        "L6",
        "a commit below the last one is reported, and sent",
        _COMMITTER,
        "            if key not in behind\n            and (",
        "            if (",
        f"{_TESTS}::test_a_commit_never_moves_back",
    ),
    Mutant(
        "moved-back-for-good",
        "L6",
        "what a commit that came late has moved back stays there until the next record",
        _COMMITTER,
        "        return now >= self._said_at.get(key, -inf) + _REPEAT_SECONDS",
        "        return False",
        f"{_FAILURES}::test_after_a_request_without_an_answer_all_is_said_again_for_a_while",
    ),
    Mutant(
        "sent-again-in-silence",
        "L6",
        "nobody hears that a commit was sent again, as the request before had got no answer",
        "triggers/kafka/client/commits.py",
        "            if response is None:\n",
        "            if response is self:\n",
        f"{_FAILURES}::test_a_commit_that_got_no_answer_is_noted",
    ),
    Mutant(
        "under-another-generation",
        "L6",
        "after a rebalance, what was so before is committed over what the new owner has committed",
        _COMMITTER,
        "return self._generation is not None and self._generation == self._store.generation",
        "return self._generation is not None",
        f"{_TESTS}::test_nothing_is_committed_under_another_generation",
    ),
    Mutant(
        "open-gate",
        "L6",
        "the gate for commits stays open after the last one of a revoke",
        _COMMITTER,
        "        self._generation = None\n\n    async def mark_stale",
        "        self._refused.clear()\n\n    async def mark_stale",
        f"{_TESTS}::test_a_closed_gate_lets_nothing_through",
    ),
    Mutant(
        "offsets-of-the-old-log",
        "L1",
        "a log that is made anew between two requests of a commit gets the offset of the one before",
        _COMMITTER,
        "        while waiting := {key: it for key, it in waiting.items() if not by_key[key].is_replaced}:",
        "        while waiting:",
        f"{_TESTS}::test_what_is_replaced_between_two_requests_of_a_commit_is_not_in_the_second",
    ),
    Mutant(
        "sent-again-as-it-was",
        "sending on",
        "a commit that is sent again with less covers a record whose message was refused meanwhile",
        _COMMITTER,
        "waiting = {key: by_key[key].checkpoint for key in waiting if key not in done}",
        "waiting = {key: it for key, it in waiting.items() if key not in done}",
        f"{_FAILURES}::test_what_is_sent_again_with_less_is_what_is_so_by_then",
    ),
    Mutant(
        "failed-and-forgotten",
        "L2",
        "what a commit without an answer was to say isn't said again",
        _COMMITTER,
        "        self._stale |= request.keys()  # until an answer has come\n",
        "",
        f"{_FAILURES}::test_after_a_failure_what_the_broker_holds_is_in_doubt",
    ),
    Mutant(
        "refused-and-believed",
        "L2",
        "what the broker refuses of one partition counts as committed",
        _COMMITTER,
        "safe = request.keys() - refused.keys()",
        "safe = request.keys()",
        f"{_FAILURES}::test_a_partition_whose_commit_is_refused_leaves_the_others_committed",
    ),
    Mutant(
        "asked-too-late",
        "never skipped",
        "a commit vouches for what was so after it had begun, such as a failure that was counted",
        _COMMITTER,
        "all(self._safe.get(it.key, 0) > asked for it in partitions)",
        "all(self._safe.get(it.key, 0) >= asked for it in partitions)",
        f"{_TESTS}::test_attempts_plan_and_acks_are_committed_when_only_they_change",
    ),
    Mutant(
        "waits-for-an-answer",
        "L9",
        "who waits behind a commit without an answer waits as long as that",
        _COMMITTER,
        "async with asyncio.timeout(timeout_seconds), self._lock:",
        "async with self._lock, asyncio.timeout(timeout_seconds):",
        f"{_FAILURES}::test_who_waits_behind_a_commit_without_an_answer_waits_no_longer_than_it_said",
    ),
)
