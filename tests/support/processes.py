"""Which processes are there, as the kernel tells it."""

import os
import signal
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second: it ends as it is read
        return False


def freeze(pid: int) -> None:
    """SIGSTOP, until all of its threads have stopped: the call by itself returns before they have."""
    os.kill(pid, signal.SIGSTOP)
    while not _is_frozen(pid):
        time.sleep(0.001)


def _is_frozen(pid: int) -> bool:
    try:
        return all(") T " in it.read_text() for it in Path(f"/proc/{pid}/task").glob("*/stat"))
    except (FileNotFoundError, ProcessLookupError):  # one of them ends as it is read
        return False


def children_of(pid: int) -> list[int]:
    """Direct child processes."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def below(pid: int) -> list[int]:
    """Processes that come of it, at any depth."""
    return [found for child in children_of(pid) for found in (child, *below(child))]


def java_children(pid: int) -> list[int]:
    """Those below `pid` that are Java."""
    return [child for child in below(pid) if Path(f"/proc/{child}/comm").read_text().strip() == "java"]
