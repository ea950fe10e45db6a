"""The process of a fence: `fence_main LEASE_FD KILL_LIST_FD PID`, started by the processor of that pid.

A process of its own, because it has to act while the processor is frozen, and while a worker computes in a C
call that holds the interpreter. docs/design/fencing-and-rebalance.md.
"""

import contextlib
import os
import select
import signal
import sys

from headrace.runtime.processes import keep_to_itself
from headrace.runtime.wire.kill_list import KillList
from headrace.runtime.wire.lease import Lease

# A lease may begin, or be renewed, at any time: nothing tells this process.
_LOOK_SECONDS = 0.1


def main() -> None:
    """Watch one lease until the processor is gone, then end what its workers may have left behind.

    The kernel ends workers with their processor, but not the processes that they have started.
    """
    # No worker may get at its kill list, by /proc for instance.
    keep_to_itself()
    # It ends with its processor, and not before: whoever stops a group of processes means the processor.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    lease, kills, processor = Lease(int(sys.argv[1])), KillList(int(sys.argv[2])), int(sys.argv[3])
    ended = select.poll()
    with contextlib.suppress(ProcessLookupError):
        ended.register(os.pidfd_open(processor), select.POLLIN)
    if os.getppid() != processor:
        kills.kill_all()
        # The processor died before this process could wait for its end.
        sys.exit(1)
    while True:
        # Each time round, so that a lease which ends twice is swept twice.
        kills.sweep(lease.ended_ns)
        left = lease.left_seconds
        if ended.poll(1000 * (min(left, _LOOK_SECONDS) if left > 0 else _LOOK_SECONDS)):
            kills.kill_all()
            return


if __name__ == "__main__":
    main()
