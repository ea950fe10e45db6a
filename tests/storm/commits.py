"""What the group has committed, sampled: L5, L6 and L9."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from history import Entry, Partition, RecordId


@dataclass(frozen=True, slots=True)
class Sample:
    """What the broker said that the group has committed; it has said so by `ns`."""

    ns: int
    offsets: Mapping[Partition, int]


def committed_too_far(
    samples: Iterable[Sample],
    history: Iterable[Entry],
    produced: Collection[RecordId],
    given_up: Mapping[RecordId, int],
) -> list[tuple[Sample, RecordId]]:
    """L5: samples that cover a record which nobody had finished by then, nor the failure policy given up."""
    ended = dict(given_up)
    for entry in history:
        if entry.what == "END":
            ended.setdefault(entry.record, entry.ns)
    by_partition: dict[Partition, list[int]] = defaultdict(list)
    for topic, partition, offset in sorted(produced):
        by_partition[topic, partition].append(offset)
    found = []
    checked: dict[Partition, int] = defaultdict(int)  # how many of them samples have covered so far
    for sample in sorted(samples, key=lambda it: it.ns):
        for key, offset in sample.offsets.items():
            offsets = by_partition[key]
            while checked[key] < len(offsets) and offsets[checked[key]] < offset:
                record = (*key, offsets[checked[key]])
                if ended.get(record, sample.ns) >= sample.ns:
                    found.append((sample, record))
                checked[key] += 1
    return found


def moved_back(samples: Iterable[Sample]) -> list[tuple[Partition, int, int]]:
    """L6: commits below an earlier one, as (partition, before, after)."""
    highest: dict[Partition, int] = {}
    found = []
    for sample in sorted(samples, key=lambda it: it.ns):
        for key, offset in sample.offsets.items():
            if offset < highest.get(key, 0):
                found.append((key, highest[key], offset))
            highest[key] = max(offset, highest.get(key, 0))
    return found


def beyond(samples: Iterable[Sample], ends: Mapping[Partition, int]) -> list[tuple[Partition, int]]:
    """L5: commits beyond the end of the log."""
    return [
        (key, offset)
        for sample in samples
        for key, offset in sample.offsets.items()
        if offset > ends.get(key, 0)
    ]


def not_at_the_end(samples: Sequence[Sample], ends: Mapping[Partition, int]) -> list[Partition]:
    """L9: partitions whose last commit isn't where their log ends. All of them, where nobody has looked."""
    last = max(samples, key=lambda it: it.ns).offsets if samples else {}
    return [key for key, end in ends.items() if last.get(key, 0) != end]
