"""`bare_sleeps.py BOOTSTRAP TOPIC GROUP FOLDER`: two processes that sleep 20 ms for a record, and read none.

What a handler of 20 ms can reach on this machine: a sleep ends late.
"""

import os
import sys
import time
from pathlib import Path

from counter import Counter

PROCESSES = 2

if __name__ == "__main__":
    parent = os.getpid()
    for _ in range(PROCESSES - 1):
        if not os.fork():
            break
    add = Counter(Path(sys.argv[4])).add
    while parent in (os.getpid(), os.getppid()):  # nobody ends the others
        time.sleep(0.02)
        add(1)
