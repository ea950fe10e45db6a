"""The clock of leases: one for all that compare times with it, and it counts a suspended machine's."""

import re
import shutil
import subprocess
import sys
import time

import pytest
from root import ROOT

from headrace.runtime.wire.lease import now_ns

# All that names a lease's end. The lease alone translates it, for what each record is compared with.
KEEPERS = (
    "runtime/workers/fence_main.py",
    "triggers/kafka/trigger.py",
    "triggers/kafka/group/classic.py",
    "triggers/kafka/client/internals.py",
)
SUSPENDED = (
    "import time\n"
    "from headrace.runtime.wire.lease import Lease\n"
    "from headrace.runtime.wire.progress_slot import ProgressSlot\n"
    "lease = Lease.create(1)\n"
    "lease.renew(time.monotonic_ns() + 500 * 10**9)\n"
    "lease.begin()\n"
    "print(lease.is_over)\n"
    "try:\n"
    "    ProgressSlot(-1, lease, exit).enter_run(7)\n"
    "except SystemExit:\n"
    "    print('ended')\n"
)


@pytest.mark.parametrize("path", KEEPERS)
def test_no_other_clock_is_compared_with_a_leases_end(path: str) -> None:
    assert not re.search(r"\btime\.(monotonic|perf_counter|time|clock)", (ROOT / path).read_text())


def test_it_is_the_clock_that_goes_on_while_a_machine_is_suspended() -> None:
    assert now_ns.args == (time.CLOCK_BOOTTIME,)


def test_the_time_of_a_suspended_machine_counts() -> None:
    assert abs(now_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) < 60 * 10**9
    # As after a suspend of 1,000 s: of both clocks only this one has gone on.
    command = ["unshare", "--fork", "--time", "--boottime", "1000", sys.executable, "-P", "-c", SUSPENDED]
    said = shutil.which("unshare") and subprocess.run(command, capture_output=True, text=True, check=False)
    if not said or said.returncode:
        pytest.skip("no time namespaces here")
    assert said.stdout == "True\nended\n"
