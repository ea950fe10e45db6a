"""Where an assignment starts, what a fetch leaves out, and who is a member: triggers/kafka."""

from mutant import Mutant

_STARTS = "tests/triggers/kafka/test_start_offsets.py"
_MACHINE = "tests/triggers/kafka/group/test_machine.py"
_WIRE = "tests/triggers/kafka/group/test_group_requests.py"

MUTANTS = (
    Mutant(
        "skips-what-is-new",
        "L1",
        "with initialOffset latest, what a partition has got before it is noticed is skipped",
        "triggers/kafka/start_offsets.py",
        "if is_latest and tp.partition < counts[tp.topic]]",
        "if is_latest]",
        f"{_STARTS}::test_a_partition_that_appears_later_is_read_from_its_beginning",
    ),
    Mutant(
        "offsets-of-a-namesake",
        "L1",
        "commits on a topic count for the one that was made anew under its name",
        "triggers/kafka/start_offsets.py",
        "if tp in commits and tp not in outdated\n",
        "if tp in commits\n",
        f"{_STARTS}::test_a_commit_on_the_topic_that_had_the_name_before_counts_no_more",
    ),
    Mutant(
        "hole-after-an-error",
        "L1",
        "what a fetch that fails has dropped of other partitions is taken for compacted away",
        "triggers/kafka/fetching.py",
        "            self._consumer.seek(TopicPartition(*key), partition.ledger.position)\n",
        "            assert partition.key == key\n",
        "tests/triggers/kafka/test_kafka_fetching.py"
        "::test_what_a_failed_fetch_has_dropped_of_other_partitions_is_fetched_again",
    ),
    Mutant(
        "releases-too-early",
        "L4",
        "a partition that is still being given up isn't said to be owned, and another member gets it",
        "triggers/kafka/group/kip848/machine.py",
        "return frozenset(self.held.values()) | frozenset(self.leaving.values())",
        "return frozenset(self.held.values())",
        f"{_MACHINE}::test_what_is_revoked_stays_owned_until_it_is_released",
    ),
    Mutant(
        "joins-too-early",
        "L4",
        "a member that was fenced joins again while handlers of its last membership run",
        "triggers/kafka/group/kip848/machine.py",
        "        if self._phase is MemberState.FENCED and not self.holdings.leaving:\n"
        "            self._begin()",
        "        if self._phase is MemberState.FENCED:\n            self._begin()",
        f"{_MACHINE}::test_a_fenced_member_joins_again_once_all_is_released",
    ),
    Mutant(
        "released-in-its-own-time",
        "L7",
        "a member that doesn't give up what was revoked goes on beyond rebalanceTimeout",
        "triggers/kafka/group/kip848/machine.py",
        "return min(session_end_ns, self._settled_ns + self._rebalance_ns)",
        "return session_end_ns",
        f"{_WIRE}::test_a_session_ends_earlier_where_something_is_not_released",
    ),
    Mutant(
        "counts-from-the-answer",
        "L7",
        "what an answer that was lost has revoked is given up later than the group waits",
        "triggers/kafka/group/kip848/machine.py",
        "            self._settled_ns = self._unanswered_ns\n",
        "            self._settled_ns = self._sent_ns\n",
        f"{_WIRE}::test_what_an_answer_that_never_came_may_have_revoked_counts_from_then",
    ),
    Mutant(
        "renewed-by-the-answer",
        "L7",
        "a session counts from the answer to a heartbeat: a replica goes on longer than its group waits",
        "triggers/kafka/client/internals.py",
        "        sent_ns = now_ns()\n        response = await send(request)\n",
        "        response = await send(request)\n        sent_ns = now_ns()\n",
        "tests/triggers/kafka/test_kafka_internals.py"
        "::test_a_session_is_renewed_from_the_time_at_which_the_question_was_sent",
        is_quick=False,
    ),
    Mutant(
        "renewed-by-a-refusal",
        "L7",
        "a heartbeat that is refused renews the session of a replica that is no member any more",
        "triggers/kafka/client/internals.py",
        "if is_about_membership and response.error_code in _MEMBER_CODES:",
        "if is_about_membership:",
        "tests/triggers/kafka/test_kafka_internals.py::test_a_refused_heartbeat_renews_nothing",
        is_quick=False,
    ),
)
