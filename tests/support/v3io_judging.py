"""What a scene's handlers have shown, against the promises: nothing lost, nobody beside another. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from history import Entry, Partition, RecordId


def handled_twice(history: Iterable[Entry]) -> list[RecordId]:
    """Records with more than one end."""
    ends = Counter(it.record for it in history if it.what == "END")
    return sorted(record for record, count in ends.items() if count > 1)


def begun_twice(history: Iterable[Entry]) -> list[RecordId]:
    """Records with more than one start: each of those before the last was in vain, or twice too many."""
    starts = Counter(it.record for it in history if it.what == "START")
    return sorted(record for record, count in starts.items() if count > 1)


def owners(history: Iterable[Entry]) -> dict[Partition, list[int]]:
    """Processors, one after the other, by what their workers have begun."""
    found: dict[Partition, list[int]] = defaultdict(list)
    for it in sorted(history, key=lambda it: it.ns):
        if it.what == "START" and found[it.key][-1:] != [it.replica]:
            found[it.key].append(it.replica)
    return dict(found)


def returned(history: Iterable[Entry]) -> list[Partition]:
    """Shards that had an owner, then another one, then the first one again: maybe both had it at a time."""
    return [key for key, pids in owners(history).items() if len(set(pids)) < len(pids)]


def together(history: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Ends that came after somebody else has begun something of their shard; and what that was."""
    ends = {(it.record, it.pid): it for it in history if it.what == "END"}
    last: dict[Partition, Entry] = {}
    found = []
    for it in sorted((it for it in history if it.what == "START"), key=lambda it: it.ns):
        before = last.get(it.key)
        end = ends.get((before.record, before.pid)) if before else None
        if before is not None and before.pid != it.pid and end is not None and end.ns > it.ns:
            found.append((end, it))
        last[it.key] = it
    return found


def check_one_owner(history: Sequence[Entry]) -> None:
    """At no time two, and none comes back."""
    assert not together(history)
    assert not returned(history)
