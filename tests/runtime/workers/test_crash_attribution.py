"""Who is blamed when a worker process dies: every way to die, in a record and in a batch."""

from itertools import product

import pytest
from worker_bench import records

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.workers.crash_attribution import (
    CrashOutcome,
    KillReason,
    ProcessExit,
    attribute,
    attribute_concurrent,
)
from headrace.runtime.workers.in_flight import Run

SEQ = 7
BLAME = "it took too long"
DEATHS = {
    "by itself": (False, None),
    "killed by us, nobody is blamed": (True, None),
    "killed by us for this record": (True, KillReason(SEQ, BLAME, is_certain=True)),
    "killed by us, perhaps for this record": (True, KillReason(SEQ, BLAME, is_certain=False)),
    "killed by us for an earlier record": (True, KillReason(SEQ - 1, BLAME, is_certain=True)),
    "killed by us, perhaps for an earlier record": (True, KillReason(SEQ - 1, BLAME, is_certain=False)),
    "killed by us for a later record": (True, KillReason(SEQ + 1, BLAME, is_certain=True)),
}
CODES = {-9: "SIGKILL", -11: "SIGSEGV", 3: "3", 0: "0"}
STARTED = {"a record": [1], "a batch of one lane": [3], "a batch of several": [1, 2], "a full batch": [1, 1]}
NOBODY = (CrashOutcome.RETURNED, "")
DIED = "worker 4 died while running it"
EXPECTED = {
    ("by itself", True): (CrashOutcome.FAILED, DIED),
    ("by itself", False): (CrashOutcome.SUSPECTED, DIED),
    ("killed by us, nobody is blamed", True): NOBODY,
    ("killed by us, nobody is blamed", False): NOBODY,
    ("killed by us for this record", True): (CrashOutcome.FAILED, BLAME),
    ("killed by us for this record", False): (CrashOutcome.FAILED, BLAME),
    ("killed by us, perhaps for this record", True): (CrashOutcome.FAILED, BLAME),
    ("killed by us, perhaps for this record", False): (CrashOutcome.SUSPECTED, BLAME),
    ("killed by us for an earlier record", True): NOBODY,
    ("killed by us for an earlier record", False): NOBODY,
    ("killed by us, perhaps for an earlier record", True): NOBODY,
    ("killed by us, perhaps for an earlier record", False): NOBODY,
    ("killed by us for a later record", True): NOBODY,
    ("killed by us for a later record", False): NOBODY,
}


def started(lengths: list[int]) -> list[Run]:
    lanes = [of_records(PartitionKey("t", number), Checkpoint(0), 64).lane for number in range(len(lengths))]
    firsts = [SEQ + sum(lengths[:i]) for i in range(len(lengths))]
    parts = zip(lanes, firsts, lengths, strict=True)
    return [Run(lane, first, records(0, length)) for lane, first, length in parts]


@pytest.mark.parametrize(("how", "what", "code"), list(product(DEATHS, STARTED, CODES)))
def test_each_death_has_one_outcome(how: str, what: str, code: int) -> None:
    is_kill_ours, kill_reason = DEATHS[how]
    process_exit = ProcessExit(4, code, is_kill_ours, kill_reason)
    outcome, reason = attribute(SEQ, started(STARTED[what]), process_exit)
    expected_outcome, expected_reason = EXPECTED[how, sum(STARTED[what]) == 1]
    assert outcome is expected_outcome
    assert reason.startswith(expected_reason)
    if expected_reason == DIED:
        assert CODES[code] in reason.removeprefix(DIED)
    else:
        assert reason == expected_reason


def test_the_table_has_every_case() -> None:
    assert set(EXPECTED) == set(product(DEATHS, (True, False)))


FAILED, SUSPECTED, RETURNED = CrashOutcome.FAILED, CrashOutcome.SUSPECTED, CrashOutcome.RETURNED
BESIDE = {
    "by itself": (FAILED, [SUSPECTED] * 3),
    "killed by us, nobody is blamed": (RETURNED, [RETURNED] * 3),
    "killed by us for this record": (FAILED, [SUSPECTED] * 3),
    "killed by us, perhaps for this record": (FAILED, [SUSPECTED] * 3),
    "killed by us for an earlier record": (RETURNED, [RETURNED] * 3),
    "killed by us, perhaps for an earlier record": (RETURNED, [RETURNED] * 3),
    "killed by us for a later record": (RETURNED, [SUSPECTED] * 3),
}


@pytest.mark.parametrize("how", DEATHS)
def test_each_of_several_that_ran_concurrently_has_its_outcome(how: str) -> None:
    process_exit = ProcessExit(4, -9, *DEATHS[how])
    alone, together = BESIDE[how]
    assert attribute_concurrent(started([1]), process_exit) == [alone]
    assert attribute_concurrent(started([1, 1, 1]), process_exit) == together
    died = "worker 4 died while running it (signal SIGKILL)"
    assert process_exit.reason == (BLAME if process_exit.kill_reason else died)
