"""The fence of a trigger: `fence_main LEASE_FD KILL_LIST_FD PID`, started by the processor of that pid.

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

_LOOK_SECONDS = 0.1  # a lease may begin at any time


def main() -> None:
    """Watch one lease until the processor is gone, then end what its workers may have left behind.

    They die with it by the kernel's hand, which takes nobody along.
    """
    keep_to_itself()  # its kill list
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    lease, kills, processor = Lease(int(sys.argv[1])), KillList(int(sys.argv[2])), int(sys.argv[3])
    ended = select.poll()
    with contextlib.suppress(ProcessLookupError):
        ended.register(os.pidfd_open(processor), select.POLLIN)
    if os.getppid() != processor:
        kills.kill_all()
        sys.exit(1)  # it died before we looked
    while True:
        kills.sweep(lease.ended_ns)
        left = lease.left_seconds
        if ended.poll(1000 * (min(left, _LOOK_SECONDS) if left > 0 else _LOOK_SECONDS)):
            kills.kill_all()
            return


if __name__ == "__main__":
    main()
