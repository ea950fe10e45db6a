"""The text of a checkpoint: metadata of a commit, a string that the broker keeps beside the offset.

    headrace/1 n=8 t=TOPIC f=TOPIC,TOPIC s=CHECKSUM/ATTEMPTS/PLAN/RUNS. b=CHECKSUM/BATCHES.

The words after `n=` stand only where there is something to say; unknown ones are skipped. A TOPIC is the
beginning of a topic's id, as the broker's tools show it. Numbers of `s=` are base 36:
a span is `GAP+MORE`, GAP offsets after the end of the span before it (the first one: after the commit), of
MORE + 1 offsets (`GAP` alone: one); attempts are `SPAN*COUNT`; the plan is `SPAN` or `SPAN@SESSION`, with a
UUID as a number; commas stand between. `b=` has the batches that are planned behind that one, `SPAN` or
`SPAN*COUNT` for so many of equal gaps and lengths. The checksums cover the commit's offset too, that of `b=`
the state: metadata that a tool carries to another offset says nothing about that one.

Tools that copy commits leave a NUL behind the text, and stray characters: each text ends with a point, that
of its last word or a word of its own, and nothing behind it counts.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from uuid import UUID
from zlib import crc32

from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED, Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.interval_set import Span

MAX_TEXT_CHARS = 32767  # what the protocol's length field can say; ours is ASCII, so bytes and characters

_FORMAT = re.compile(r"headrace/1 n=([0-9]{1,9})(?![0-9])(.*)", re.DOTALL)
_STATE = re.compile(
    r"s=([0-9a-z]{7})/(([0-9a-z+*,]*)/(-?)([0-9a-z+]*)(?:@([0-9a-z]{1,25}))?/([0-9a-z+,]*)\.)"
)
_BEHIND = re.compile(r"b=([0-9a-z]{7})/([0-9a-z+*,]+)\.")
_TOPIC = re.compile(r"t=([0-9A-Za-z_-]{6})")
_FIRST_TOPICS = re.compile(r"f=([0-9A-Za-z_-]{6}(?:,[0-9A-Za-z_-]{6})*)")
TOPIC_ID_CHARS = 6  # of 22: two topics of one name in 68 billion share them
_MAX_FIRST_TOPICS = 64
_END = " ."
_STATE_CHARS = len(" s=0000000/" + "//.")
_BEHIND_CHARS = len(" b=0000000/" + ".")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_END_OF_OFFSETS = 2**63
_MAX_FAILURES = 10**6  # of one record


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as it goes to the broker. `is_whole`: nothing is left out of it."""

    text: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CheckpointText:
    """A checkpoint, and what else a commit says of its topic.

    `first_partition_count`: how many partitions the topic had when the group first came to it.

    A partition from that number on has appeared since, and is read from its beginning whatever initialOffset
    says; one below it that has no commit has only been left alone so far.

    `topic_id`: the first TOPIC_ID_CHARS of the id of the topic whose offsets these are; one that is made
    anew by that name has another. `first_topics`: the ids of the topics that were there when the group first
    came to any. A topic that isn't among them has appeared since, as a partition may. Both are empty if
    nobody knows.
    """

    first_partition_count: int
    checkpoint: Checkpoint
    topic_id: str = ""
    first_topics: tuple[str, ...] = ()

    def encode(self, max_chars: int, *, runs_first: bool = False) -> Encoded:
        """Write count, attempts from the lowest up, plan, acked runs from the lowest up, as far as they fit.

        `max_chars`: what the broker takes. What is left out is delivered again, or counted anew: less than
        the truth is always safe. `runs_first`: messages were written with acked runs, and would be again.
        """
        checkpoint = self.checkpoint
        head = self._head(max_chars)
        left = max_chars - len(head) - _STATE_CHARS if head else -1
        runs, has_all_runs = "", True
        if runs_first:
            runs, has_all_runs = _as_many_as_fit(_run_items(checkpoint), left)
            left -= len(runs)
        attempts, is_whole = _as_many_as_fit(_attempt_items(checkpoint), left)
        plan = _plan_item(checkpoint)
        # Attempts go first: without a plan a batch may come again with other boundaries, without attempts a
        # record that kills its worker would be tried for ever.
        if not is_whole or len(attempts) + len(plan) > max(left, 0):
            plan, is_whole = "", is_whole and not plan
        behind = ""
        left -= len(attempts) + len(plan)
        if plan and checkpoint.plan and checkpoint.plan.behind:
            behind, is_whole = _as_many_as_fit(_batch_items(checkpoint.plan), left - _BEHIND_CHARS)
            left -= len(behind) + _BEHIND_CHARS
        if is_whole and not runs_first:
            runs, has_all_runs = _as_many_as_fit(_run_items(checkpoint), left)
        state = f"{attempts}/{plan}/{runs}." if attempts or plan or runs else ""
        end = _END if 0 < len(head) <= max_chars - len(_END) else ""
        text = head + (f" s={_checksum(checkpoint.offset, state)}/{state}" if state else end)
        if behind:
            text += f" b={_checksum(checkpoint.offset, state + behind)}/{behind}."
        return Encoded(text, is_whole and has_all_runs)

    def _head(self, max_chars: int) -> str:
        """Return the first words, as many as fit.

        Topics beyond a number are left out: all count as new then.
        """
        head = ""
        for word in (
            f"headrace/1 n={self.first_partition_count}",
            f" t={self.topic_id}" if self.topic_id else "",
            f" f={','.join(self.first_topics)}" if 0 < len(self.first_topics) <= _MAX_FIRST_TOPICS else "",
        ):
            if len(head) + len(word) > max_chars:
                break
            head += word
        return head


def decode_text(offset: int, text: str | None) -> CheckpointText | None:
    """Return what was written with a commit of `offset`; None for metadata of other tools and later versions.

    Never raises: anybody in the group may have written it. State that isn't whole, or belongs to another
    offset, is as good as none.
    """
    found = _FORMAT.match((text or "").partition("\0")[0])
    if found is None:
        return None
    checkpoint, topic_id, first_topics = Checkpoint(offset), "", tuple[str, ...]()
    sealed = ""
    for word in found[2].split(" "):
        if word.startswith("."):
            break
        # Each as far as its own end: older releases wrote no point behind the words of a fixed length.
        if not topic_id and (topic := _TOPIC.match(word)):
            topic_id = topic[1]
        if not first_topics and (topics := _FIRST_TOPICS.match(word)):
            first_topics = tuple(topics[1].split(","))
        try:
            if (state := _STATE.match(word)) and state[1] == _checksum(offset, state[2]):
                checkpoint, sealed = _read_state(offset, state), state[2]
            if (behind := _BEHIND.match(word)) and behind[1] == _checksum(offset, sealed + behind[2]):
                checkpoint = _with_batches(checkpoint, behind[2])
        except ValueError:
            break  # somebody's joke: the checksum is right and the numbers are not
    return CheckpointText(int(found[1]), checkpoint, topic_id, first_topics)


# ---- writing


def _as_many_as_fit(items: Iterable[str], left: int) -> tuple[str, bool]:
    """Return the first items, joined, and whether they are all."""
    kept: list[str] = []
    for item in items:
        left -= len(item) + bool(kept)
        if left < 0:
            return ",".join(kept), False
        kept.append(item)
    return ",".join(kept), True


def _attempt_items(checkpoint: Checkpoint) -> Iterator[str]:
    at = checkpoint.offset
    for first, end, failures in checkpoint.attempts:
        if at <= first < end:
            yield f"{_span(first - at, end - first)}*{_base36(failures)}"
            at = end


def _plan_item(checkpoint: Checkpoint) -> str:
    """Write the first batch. It may have begun below the commit, as its first records are settled: a `-`."""
    plan = checkpoint.plan
    if plan is None or plan.end <= plan.first:
        return ""
    gap = plan.first - checkpoint.offset
    session = f"@{_base36(UUID(plan.session).int)}" if plan.session else ""
    return ("-" if gap < 0 else "") + _span(abs(gap), plan.end - plan.first) + session


def _batch_items(plan: PlannedBatches) -> Iterator[str]:
    """Yield the batches behind the first, alike ones as one: nearly all are full, and follow each other."""
    at, gaps = plan.end, list[tuple[int, int]]()
    for first, end in plan.behind:
        gaps.append((first - at, end - first))
        at = end
    for (gap, length), alike in groupby(gaps):
        count = len(list(alike))
        yield _span(gap, length) + (f"*{_base36(count)}" if count > 1 else "")


def _run_items(checkpoint: Checkpoint) -> Iterator[str]:
    at = checkpoint.offset
    for first, end in checkpoint.acked:
        if at <= first < end:
            yield _span(first - at, end - first)
            at = end


def _span(gap: int, length: int) -> str:
    return _base36(gap) + (f"+{_base36(length - 1)}" if length > 1 else "")


def _base36(number: int) -> str:
    assert number >= 0
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits


def _checksum(offset: int, state: str) -> str:
    return _base36(crc32(f"{offset}/{state}".encode())).rjust(7, "0")


# ---- reading


def _read_state(offset: int, state: re.Match[str]) -> Checkpoint:
    """Read the word `s=`. Raises ValueError on numbers that no checkpoint has."""
    attempts: list[tuple[int, int, int]] = []
    at = offset
    for item in filter(None, state[3].split(",")):
        span, _, count = item.partition("*")
        first, at = _read_span(at, span)
        failures = int(count, 36)
        if failures > _MAX_FAILURES:
            raise ValueError("out of range")
        if failures:
            attempts.append((first, at, failures))
    runs: list[Span] = []
    at = offset
    for item in filter(None, state[7].split(",")):
        first, at = _read_span(at, item)
        if first > offset:  # a run at the commit would have moved it
            runs.append((first, at))
    return Checkpoint(offset, tuple(attempts), _read_plan(offset, *state.group(4, 5, 6)), tuple(runs))


def _read_plan(offset: int, sign: str, span: str, session: str | None) -> PlannedBatches | None:
    if not span:
        return None
    gap, gap_end = _read_span(0, span)
    first = offset - gap if sign else offset + gap
    end = first + gap_end - gap
    if first < 0 or end > _END_OF_OFFSETS:
        raise ValueError("out of range")
    return PlannedBatches(first, end, str(UUID(int=int(session, 36))) if session else "")


def _with_batches(checkpoint: Checkpoint, items: str) -> Checkpoint:
    """Add to its plan what `_batch_items` has written. Raises ValueError as `_read_state` does."""
    if (plan := checkpoint.plan) is None:
        return checkpoint
    at, behind = plan.end, list[Span]()
    for item in items.split(","):
        span, _, count = item.partition("*")
        # However large the count, as a few characters must not stand for much memory.
        for _ in range(min(int(count or "1", 36), MOST_PLANNED - len(behind))):
            first, at = _read_span(at, span)
            behind.append((first, at))
    return replace(checkpoint, plan=replace(plan, behind=tuple(behind)))


def _read_span(at: int, span: str) -> Span:
    """Return the first and the end of a span that follows offset `at`."""
    gap, _, more = span.partition("+")
    first = at + int(gap, 36)
    end = first + int(more or "0", 36) + 1
    if end > _END_OF_OFFSETS:
        raise ValueError("out of range")
    return first, end
