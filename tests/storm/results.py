"""What a function has produced, one result for each record, against its source and what its group committed.

Pure. A result is known by the record that it is of, and by where it lies in the output topic.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from commits import Sample, not_at_the_end
from history import Entry, Partition, RecordId
from scenario import Report


@dataclass(frozen=True, slots=True)
class Result:
    """Of which record it is, and where it lies in an output topic."""

    of: RecordId
    where: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class Look:
    """What was committed, and after that where the partitions of the output topics ended."""

    commits: Sample
    ends: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one load, from its beginning to its end."""

    produced: Collection[RecordId]
    source_ends: Mapping[Partition, int]
    history: Sequence[Entry]
    looks: Sequence[Look]
    results: Sequence[Result]
    """As a consumer reads them that the function is meant for."""
    is_once: bool = False
    """Not one of them may be there twice."""
    letters: Sequence[Result] = ()
    """Dead letters, each in place of a result. Who has taken over a record whose attempts are used up writes
    one again, and runs no handler for that."""

    @property
    def ends_of_records(self) -> Sequence[Result]:
        """What a record may end in."""
        return [*self.results, *self.letters]


def judge_results(found: Outcome, report: Report, number: int) -> None:
    """Every figure of repetition `number`, against its bound."""

    def add(name: str, value: float, high: float = 0) -> None:
        report.add(name, value, 0, high, number)

    runs = Counter(entry.record for entry in found.history if entry.what == "START")
    repeats = 0 if found.is_once else runs.total() - len(runs)
    ends = found.ends_of_records
    report.add("results", len(ends), 1, 1e9, number)
    report.add("commits seen amid the storm", len(amid(found)), 2, 1e9, number)
    add("L1 records without a result", len(set(found.produced) - {it.of for it in ends}))
    add("L2 results again", len(again(found.results)), repeats)
    add("L2 results beyond the runs of their handler", len(beyond_runs(found.results, runs)))
    add("L2 results of no record", len({it.of for it in ends} - set(found.produced)))
    add("L5 committed before their result", len(committed_without(found)))
    last = not_at_the_end([look.commits for look in found.looks], found.source_ends)
    add("L9 last looks that aren't at the end of the log", len(last))


def again(results: Iterable[Result]) -> list[Result]:
    """Each but the first one of its record."""
    seen: set[RecordId] = set()
    found = []
    for result in results:
        if result.of in seen:
            found.append(result)
        seen.add(result.of)
    return found


def beyond_runs(results: Iterable[Result], runs: Mapping[RecordId, int]) -> set[RecordId]:
    """Records with more results than calls of their handler: somebody has written one twice."""
    return {it for it, count in Counter(result.of for result in results).items() if count > runs.get(it, 0)}


def committed_without(found: Outcome) -> list[tuple[Look, RecordId]]:
    """L5: looks that saw a record committed, and whose output topic ended before any result of it."""
    where: dict[RecordId, list[Result]] = defaultdict(list)
    for result in found.ends_of_records:
        where[result.of].append(result)
    missing = []
    for look, record in newly_committed(found):
        if not any(it.offset < look.ends.get(it.where, 0) for it in where[record]):
            missing.append((look, record))
    return missing


def newly_committed(found: Outcome) -> Iterable[tuple[Look, RecordId]]:
    """Each record, with the first look that saw it committed: ends only grow."""
    checked: dict[Partition, int] = defaultdict(int)
    for look in sorted(found.looks, key=lambda it: it.commits.ns):
        for (topic, partition), committed in look.commits.offsets.items():
            for offset in range(checked[topic, partition], committed):
                yield look, (topic, partition, offset)
            checked[topic, partition] = max(committed, checked[topic, partition])


def amid(found: Outcome) -> set[int]:
    """How much was committed, in all, where that was something and not yet everything."""
    sums = {sum(max(it, 0) for it in look.commits.offsets.values()) for look in found.looks}
    return {it for it in sums if 0 < it < sum(found.source_ends.values())}
