"""What has failed, what is to blame, and what becomes of it: failures, crash attribution, dead letters."""

from mutant import Mutant

_ATTRIBUTION = "runtime/workers/crash_attribution.py"
_ATTRIBUTION_TESTS = "tests/runtime/workers/test_crash_attribution.py"
_ALONE = "tests/runtime/dispatch/test_failure_handler.py"
_LETTERS = "tests/triggers/kafka/test_kafka_dead_letters.py"

MUTANTS = (
    Mutant(
        "one-attempt-more",
        "never skipped",
        "a record is delivered once more than maxAttempts says",
        "runtime/config/delivery_policy.py",
        "return 0 < self.max_attempts <= attempts",
        "return 0 < self.max_attempts < attempts",
        "tests/runtime/dispatch/test_attempts.py::test_attempts_are_spent_once_so_many_have_failed",
    ),
    Mutant(
        "waits-ever-longer",
        "L9",
        "the wait between attempts goes on doubling beyond maxBackoff",
        "runtime/config/delivery_policy.py",
        "min(self.backoff_seconds * 2**doublings, self.max_backoff_seconds)",
        "self.backoff_seconds * 2**doublings",
        "tests/runtime/dispatch/test_attempts.py"
        "::test_the_wait_doubles_with_jitter_and_never_exceeds_the_maximum",
    ),
    Mutant(
        "kills-count",
        "never skipped",
        "a worker that is killed for a rebalance costs its record an attempt",
        _ATTRIBUTION,
        "    if process_exit.is_kill_ours and kill_reason is None:\n"
        "        return CrashOutcome.RETURNED, process_exit.why_killed\n",
        "",
        f"{_ATTRIBUTION_TESTS}::test_each_death_has_one_outcome",
    ),
    Mutant(
        "next-to-blame",
        "never skipped",
        "a kill for a late record is blamed on the one that its worker has moved on to",
        _ATTRIBUTION,
        "kill_reason.seq != seq:",
        "kill_reason.seq < 0:",
        f"{_ATTRIBUTION_TESTS}::test_each_death_has_one_outcome",
    ),
    Mutant(
        "all-to-blame",
        "never skipped",
        "of several records that ran beside each other, each has failed when their worker dies",
        _ATTRIBUTION,
        "    is_certain = len(started) == 1 and not has_waiting\n",
        "    is_certain = not has_waiting\n",
        f"{_ATTRIBUTION_TESTS}::test_each_of_several_that_ran_concurrently_has_its_outcome",
    ),
    Mutant(
        "batch-to-blame",
        "never skipped",
        "all records of a batch that keeps failing are given up, and not the bad one alone",
        "runtime/dispatch/failure_handler.py",
        "            record.is_refused = record.among == 1\n",
        "            record.is_refused = True\n",
        f"{_ALONE}::test_of_a_batch_that_has_spent_its_attempts_only_what_is_alone_is_given_up",
    ),
    Mutant(
        "letter-of-hope",
        "L1",
        "a record is settled although its dead letter couldn't be written",
        "runtime/dispatch/failure_handler.py",
        "                extra=about,\n            )\n            return False\n",
        "                extra=about,\n            )\n            return True\n",
        f"{_ALONE}::test_a_record_stays_open_until_its_dead_letter_is_written",
    ),
    Mutant(
        "begins-anew",
        "never skipped",
        "a record whose attempts are spent is delivered once more by each new owner",
        "runtime/dispatch/failure_handler.py",
        '                failed.is_refused = is_alone and self._policy.then != "halt"\n',
        "                failed.is_refused = False\n",
        f"{_ALONE}::test_what_had_all_its_attempts_under_its_last_owner_has_one_more_only_where_it_halts",
    ),
    Mutant(
        "uncounted",
        "never skipped",
        "the next attempt begins before the count of the last one is committed",
        "runtime/dispatch/failure_handler.py",
        "await asyncio.gather(self.persist(partition), asyncio.sleep(wait))",
        "await asyncio.sleep(wait)",
        "tests/simulation/test_simulation.py::test_what_a_seed_has_found_is_mended[2]",
    ),
    Mutant(
        "first-provenance",
        "L8",
        "a dead letter that has failed again says where it came from at first",
        "runtime/kafka/dead_letter_headers.py",
        "last = {name: at for at, (name, _) in enumerate(headers) if name in NAMES}",
        "last = {name: at for at, (name, _) in reversed([*enumerate(headers)]) if name in NAMES}",
        f"{_LETTERS}::test_a_dead_letter_that_fails_again_loses_one_provenance_at_a_time",
    ),
    Mutant(
        "letter-of-another-record",
        "L8",
        "a dead letter of an undecoded record has what the first one of its batch holds",
        "runtime/streams/isolated_decoder.py",
        "_REQUEST.pack(len(chunk.data), record.offset - chunk.first)",
        "_REQUEST.pack(len(chunk.data), 0)",
        "tests/runtime/streams/test_isolated_decoder.py::test_it_says_what_the_record_holds",
        is_quick=False,
    ),
    Mutant(
        "letter-without-its-key",
        "L8",
        "a dead letter has no key, whatever its record has",
        "triggers/kafka/dead_letters.py",
        "copy = RecordCopy(record.key, record.value, headers, None)",
        "copy = RecordCopy(None, record.value, headers, None)",
        f"{_LETTERS}::test_a_record_is_written_byte_for_byte_with_its_provenance",
        is_quick=False,
    ),
)
