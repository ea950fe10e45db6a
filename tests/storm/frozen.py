"""What a replica has done after its session, frozen or cut off as it was: L7."""

from collections.abc import Collection, Iterable

from history import Entry, RecordId


def started_between(history: Iterable[Entry], replica: int, first_ns: int, end_ns: int) -> list[Entry]:
    """L7: what a replica has started in a time in which nothing was its own."""
    return [
        it for it in history if it.what == "START" and it.replica == replica and first_ns < it.ns < end_ns
    ]


def gone_on_with(history: Iterable[Entry], pids: Collection[int], woke_ns: int) -> dict[int, RecordId]:
    """The record that each of these processes was in when it was frozen, if it went on with it.

    That is what it says first when it has woken up, even if it says START: it may have been about to.
    """
    found: dict[int, RecordId] = {}
    for entry in history:
        if entry.pid in pids and entry.ns > woke_ns:
            found.setdefault(entry.pid, entry.record)
    return found


def started_late(history: Iterable[Entry], pids: Collection[int], woke_ns: int, owned_ns: int) -> list[Entry]:
    """L7: what frozen processes have started from their waking until they owned something again.

    The record that each was in is not counted.
    """
    entries = [it for it in history if it.pid in pids and woke_ns < it.ns < owned_ns]
    own = gone_on_with(entries, pids, woke_ns)
    return [it for it in entries if it.what == "START" and it.record != own[it.pid]]
