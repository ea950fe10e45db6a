"""The fence of a trigger, started by a processor with the lease's descriptor and its own pid.

A process of its own, because it has to act while the processor is frozen, and while a worker computes in a C
call that holds the interpreter. docs/design/fencing-and-rebalance.md.
"""

import contextlib
import os
import select
import signal
import sys

from headrace.runtime.wire.lease import Lease

_LOOK_SECONDS = 0.1  # a lease may begin at any time


def main() -> None:
    """Watch one lease until the processor is gone, then end what its workers may have left behind.

    They die with it by the kernel's hand, which takes nobody along.
    """
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    lease, processor = Lease(int(sys.argv[1])), int(sys.argv[2])
    ended = select.poll()
    with contextlib.suppress(ProcessLookupError):
        ended.register(os.pidfd_open(processor), select.POLLIN)
    if os.getppid() != processor:
        lease.kill_all()
        sys.exit(1)  # it died before we looked
    while True:
        lease.sweep()
        left = lease.left_seconds
        if ended.poll(1000 * (min(left, _LOOK_SECONDS) if left > 0 else _LOOK_SECONDS)):
            lease.kill_all()
            return


if __name__ == "__main__":
    main()
