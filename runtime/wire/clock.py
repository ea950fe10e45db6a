"""The clock of leases. The same in all processes."""

import time
from functools import partial

# The time of a suspended machine counts: its partitions went to others meanwhile. Where no clock has that
# (macOS), the monotonic one has to do.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

now_ns = partial(time.clock_gettime_ns, _CLOCK)
"""ns since some beginning."""
