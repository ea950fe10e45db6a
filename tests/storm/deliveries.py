"""Which records were handled, how often, and when: L1, L2, L8 and L9."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from history import Entry, Partition, RecordId


def lost(
    produced: Collection[RecordId], history: Iterable[Entry], given_up: Collection[RecordId] = ()
) -> set[RecordId]:
    """L1: what nobody has finished, nor the failure policy given up."""
    return set(produced) - {entry.record for entry in history if entry.what == "END"} - set(given_up)


def repeated(history: Iterable[Entry]) -> list[Entry]:
    """L2: each END of a record after its first."""
    seen: set[RecordId] = set()
    again = []
    for entry in history:
        if entry.what == "END":
            if entry.record in seen:
                again.append(entry)
            seen.add(entry.record)
    return again


def unended(history: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """L2: STARTs without an END: of processes that said no more, and of those that went on to another START.

    The former were killed; a handler that didn't fail has no place among the latter.
    """
    inside: dict[int, dict[RecordId, Entry]] = defaultdict(dict)
    went_on: list[Entry] = []
    for entry in history:
        if entry.what == "START":
            went_on += inside.pop(entry.pid, {}).values()
            inside[entry.pid][entry.record] = entry
        elif entry.what == "END":
            inside[entry.pid].pop(entry.record, None)
    return [entry for starts in inside.values() for entry in starts.values()], went_on


def early_attempts(history: Iterable[Entry]) -> list[tuple[Entry, int]]:
    """L2: STARTs with a higher attempt than deliveries before them explain, and by how much."""
    starts: Counter[RecordId] = Counter()
    found = []
    for entry in history:
        if entry.what == "START":
            starts[entry.record] += 1
            if entry.attempt > starts[entry.record]:
                found.append((entry, entry.attempt - starts[entry.record]))
    return found


def changed_letters(
    originals: Mapping[RecordId, tuple[bytes | None, bytes | None]],
    letters: Mapping[RecordId, tuple[bytes | None, bytes | None]],
) -> set[RecordId]:
    """L8: dead letters whose key or value isn't that of the record that they name."""
    return {record for record, letter in letters.items() if originals.get(record) != letter}


def longest_stall(history: Sequence[Entry]) -> float:
    """L9: for how many seconds no handler has ended in some partition that had records.

    From the first END of all until the last one of the partition.
    """
    ends: dict[Partition, list[int]] = defaultdict(list)
    for entry in history:
        if entry.what == "END":
            ends[entry.key].append(entry.ns)
    first = min((found[0] for found in ends.values()), default=0)
    gaps = (b - a for found in ends.values() for a, b in pairwise([first, *sorted(found)]))
    return max(gaps, default=0) / 1e9
