"""What handlers send on: held back from commits, in order, and with exactlyOnce in one transaction."""

from mutant import Mutant

_SIMULATION = "tests/simulation/test_simulation.py::test_what_a_seed_has_found_is_mended"
_OUTPUTS = "tests/triggers/kafka/test_output_producer.py"

MUTANTS = (
    Mutant(
        "unheld",
        "sending on",
        "records are committed before their messages are written",
        "runtime/partitions/partition_offsets.py",
        "        if self.pending:\n            offset, acked",
        "        if not self:\n            offset, acked",
        f"{_SIMULATION}[0]",
    ),
    Mutant(
        "held-in-part",
        "sending on",
        "a commit moves past a record whose message is on its way, and only its acks leave that out",
        "runtime/partitions/offsets/pending_produces.py",
        "offset = min(committable, holes[0][0]) if holes else committable",
        "offset = committable",
        "tests/runtime/partitions/test_pending_produces.py::test_all_that_is_settled_is_said_but_for_what_is_held",
    ),
    Mutant(
        "unanswered",
        "sending on",
        "a refused message has no record fail",
        "runtime/dispatch/produce_tracker.py",
        "            if call.failure:\n                self._fail(",
        "            if not call:\n                self._fail(",
        f"{_SIMULATION}[0]",
    ),
    Mutant(
        "blamed",
        "never skipped",
        "with exactlyOnce, what was sent behind a refused message is blamed, and nobody is told of that",
        "triggers/kafka/produce/partition_producer.py",
        "        if not refused:\n",
        "        if len(refused) < len(failed):\n",
        f"{_SIMULATION}[15]",
    ),
    Mutant(
        "unasked",
        "sending on",
        "a transaction whose end is unknown is written anew, whether it stands or not",
        "triggers/kafka/group/transactional_offsets.py",
        "                    self._in_doubt[key] = commit, topic\n",
        "                    pass\n",
        f"{_SIMULATION}[19]",
    ),
    Mutant(
        "written-with-another-commit",
        "sending on",
        "with exactlyOnce, messages go with a commit that doesn't cover their record, and with the next too",
        "runtime/partitions/offsets/pending_produces.py",
        "for first, pending in sorted(self.items()) if _is_within(covered, first))",
        "for _, pending in sorted(self.items()) if covered)",
        f"{_SIMULATION}[17]",
    ),
    Mutant(
        "acked-and-refused",
        "sending on",
        "an ack of a delivery whose message was refused counts",
        "runtime/partitions/offsets/pending_produces.py",
        '        if counts := self.rejected[first] != "waits":\n',
        "        if counts := first in self.rejected:\n",
        f"{_SIMULATION}[32]",
    ),
    Mutant(
        "out-of-step",
        "sending on",
        "a producer whose batch has failed is used on, and the broker refuses all that follows",
        "triggers/kafka/produce/output_producer.py",
        "            self._retire(producer)  # it has counted the failed batch:",
        "            # it has counted the failed batch:",
        f"{_OUTPUTS}::test_a_message_that_cannot_be_written_fails_and_ends_its_producer",
    ),
    Mutant(
        "sent-after-the-next",
        "sending on",
        "messages that have to go once more go behind those that came after them",
        "triggers/kafka/produce/topic_queue.py",
        "        self.waiting.extendleft(reversed(messages))",
        "        self.waiting.extend(messages)",
        f"{_OUTPUTS}::test_a_batch_that_is_too_large_goes_in_halves_and_what_came_after_it_goes_after_it",
    ),
    Mutant(
        "key-by-hash",
        "sending on",
        "messages of a key go to other partitions than those of other clients",
        "triggers/kafka/produce/packing.py",
        "    chosen: int = _by_key(message.key, partitions, partitions)\n",
        "    chosen: int = partitions[sum(message.key) % len(partitions)]\n",
        "tests/triggers/kafka/test_packing.py"
        "::test_a_key_has_one_partition_and_it_is_the_one_of_other_clients",
    ),
    Mutant(
        "fences-a-namesake",
        "L9",
        "groups and topics whose names run into each other end each other's transactions for ever",
        "triggers/kafka/produce/partition_producer.py",
        'return f"{group}-headrace/{key.topic}/{key.partition}"',
        'return f"{group}-headrace-{key.topic}-{key.partition}"',
        "tests/triggers/kafka/test_partition_transactions.py::test_an_id_says_of_what_it_is",
    ),
)
