"""The fence of a trigger, started by a processor with the lease's descriptor and its own pid.

A process of its own, because it has to act while the processor is frozen, and while a worker computes in a C
call that holds the interpreter. docs/design/fencing-and-rebalance.md.
"""

import signal
import sys
import time

from headrace.runtime.processes import die_with_parent
from headrace.runtime.wire.lease import Lease

_LOOK_SECONDS = 0.1  # a lease may begin at any time


def main() -> None:
    """Watch one lease until the processor is gone."""
    die_with_parent(int(sys.argv[2]))
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    lease = Lease(int(sys.argv[1]))
    while True:
        lease.sweep()
        left = lease.left_seconds
        time.sleep(min(left, _LOOK_SECONDS) if left > 0 else _LOOK_SECONDS)


if __name__ == "__main__":
    main()
