"""Which processes are there, as the kernel tells it."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def children_of(pid: int) -> list[int]:
    """Direct child processes."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def java_children(pid: int) -> list[int]:
    """Processes below `pid`, at any depth, that are Java."""
    below = children_of(pid)
    names = {child: Path(f"/proc/{child}/comm").read_text().strip() for child in below}
    return [child for child in below if names[child] == "java"] + [
        found for child in below for found in java_children(child)
    ]
