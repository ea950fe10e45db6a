"""What a commit carries besides its offset, and what is left of it in little room or in other hands."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED, Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.checkpoint_text import (
    MAX_TEXT_CHARS,
    TOPIC_ID_CHARS,
    CheckpointText,
    decode_text,
)

OFFSETS = st.integers(0, 2**62)
LENGTHS = st.integers(1, 2**30)


@st.composite
def batches_behind(draw: st.DrawFn, end: int) -> tuple[tuple[int, int], ...]:
    """Some of them alike."""
    found: list[tuple[int, int]] = []
    alike = st.tuples(st.integers(0, 9), st.integers(1, 1000), st.integers(1, 60))
    for gap, length, count in draw(st.lists(alike, max_size=4)):
        for _ in range(count):
            found.append((end + gap, end + gap + length))
            end += gap + length
    return tuple(found)


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    offset = draw(OFFSETS)
    at, acked = offset, []
    for gap, length in draw(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), max_size=30)):
        acked.append((at + gap, at + gap + length))
        at += gap + length
    at, attempts = offset, []
    for gap, length, failures in draw(st.lists(st.tuples(st.integers(0, 9), LENGTHS, st.integers(1, 9)))):
        attempts.append((at + gap, at + gap + length, failures))
        at += gap + length
    plan = None
    if draw(st.booleans()):
        first = draw(st.integers(max(0, offset - 1000), offset + 1000))
        end = draw(st.integers(max(first, offset) + 1, max(first, offset) + 1000))
        plan = PlannedBatches(first, end, draw(st.uuids().map(str) | st.just("")), draw(batches_behind(end)))
    return Checkpoint(offset, tuple(attempts), plan, tuple(acked))


TOPIC_IDS = st.text("abcXYZ019_-", min_size=TOPIC_ID_CHARS, max_size=TOPIC_ID_CHARS)
METADATA = st.builds(
    CheckpointText,
    st.integers(0, 10**6),
    checkpoints(),
    TOPIC_IDS | st.just(""),
    st.lists(TOPIC_IDS, max_size=9).map(tuple),
)


def read(offset: int, text: str | None) -> CheckpointText:
    found = decode_text(offset, text)
    assert found is not None
    return found


@given(METADATA)
def test_metadata_comes_back_as_it_was_written(metadata: CheckpointText) -> None:
    encoded = metadata.encode(MAX_TEXT_CHARS)
    assert encoded.is_whole
    assert encoded.text.isascii()
    assert decode_text(metadata.checkpoint.offset, encoded.text) == metadata


@given(METADATA, st.integers(0, 300))
def test_in_little_room_attempts_come_first_then_the_plan_then_acked_runs(
    metadata: CheckpointText, max_chars: int
) -> None:
    encoded = metadata.encode(max_chars)
    assert len(encoded.text) <= max_chars
    if not encoded.text:
        assert max_chars < len(f"headrace/1 n={metadata.first_partition_count}")
        return
    kept = read(metadata.checkpoint.offset, encoded.text).checkpoint
    told = metadata.checkpoint
    assert kept.attempts == told.attempts[: len(kept.attempts)]
    if kept.plan is not None:
        assert told.plan is not None
        assert kept.attempts == told.attempts
        assert kept.plan.session == told.plan.session
        assert kept.plan.batches == told.plan.batches[: len(kept.plan.batches)]
    assert kept.acked == told.acked[: len(kept.acked)]
    assert not kept.acked or (kept.attempts, kept.plan) == (told.attempts, told.plan)
    assert encoded.is_whole == (kept == told)


@given(METADATA, st.integers(0, 300))
def test_acked_runs_come_first_where_messages_were_written_with_them(
    metadata: CheckpointText, max_chars: int
) -> None:
    encoded = metadata.encode(max_chars, runs_first=True)
    assert len(encoded.text) <= max_chars
    if not encoded.text:
        return
    kept, told = read(metadata.checkpoint.offset, encoded.text).checkpoint, metadata.checkpoint
    assert kept.acked == told.acked[: len(kept.acked)]
    others = replace(told, attempts=(), plan=None)
    assert (
        kept.acked
        == read(told.offset, replace(metadata, checkpoint=others).encode(max_chars).text).checkpoint.acked
    )
    assert kept.attempts == told.attempts[: len(kept.attempts)]
    assert encoded.is_whole == (kept == told)


@given(METADATA, st.integers(0, 500))
def test_a_text_that_was_cut_short_tells_nothing_that_was_not_written(
    metadata: CheckpointText, length: int
) -> None:
    text = metadata.encode(MAX_TEXT_CHARS).text
    found = decode_text(metadata.checkpoint.offset, text[:length])
    if found is not None and length < len(text):
        told = metadata.checkpoint
        one_batch = told.plan and replace(told, plan=replace(told.plan, behind=()))
        assert found.checkpoint in {Checkpoint(told.offset), one_batch}
        assert found.first_partition_count <= metadata.first_partition_count


# What tools leave behind a text that they copy: a NUL, and what lay in their memory behind it.
BEHIND = st.text() | st.text("0123456789abcz+*,/. =-_s", max_size=12) | st.just(" s=0000000///. b=0000000/1.")


@given(METADATA, BEHIND, st.sampled_from(["", "\0"]))
def test_a_text_says_all_that_it_says_whatever_lies_behind_it(
    metadata: CheckpointText, behind: str, nul: str
) -> None:
    text = metadata.encode(MAX_TEXT_CHARS).text
    assert decode_text(metadata.checkpoint.offset, text + nul + behind) == metadata


@pytest.mark.parametrize("behind", ["\0", "\0\0x", "Q", "é", "\0 t=zzzzzz", "/", "."])
@pytest.mark.parametrize(
    "words",
    [
        "n=8",
        "n=8 t=abcdef",
        "n=8 t=abcdef f=abcdef,ghijkl",
        "n=8 s=1xwwn9g/0*2/0+dv@6ktxh4animev0ksc76rl0ep3k/gj+1.",
    ],
)
def test_what_an_older_release_wrote_is_read_whatever_lies_behind_it(words: str, behind: str) -> None:
    """It wrote no end behind the words that need none: those of a fixed length are read as far as that."""
    text = f"headrace/1 {words}"
    assert decode_text(5, text) != CheckpointText(8, Checkpoint(5)) or words == "n=8"
    assert decode_text(5, text + behind) == decode_text(5, text)


@given(METADATA, st.integers(0, 500), st.text(max_size=3), st.text(max_size=3))
def test_a_text_with_damaged_ends_tells_nothing_that_was_not_written(
    metadata: CheckpointText, length: int, before: str, behind: str
) -> None:
    text = metadata.encode(MAX_TEXT_CHARS).text
    offset, told = metadata.checkpoint.offset, metadata.checkpoint
    one_batch = told.plan and replace(told, plan=replace(told.plan, behind=()))
    for damaged in (before + text[length:], before + text, text[:length] + behind, before + text + behind):
        found = decode_text(offset, damaged)
        if found is not None:
            assert found.checkpoint in {told, Checkpoint(told.offset), one_batch}


@given(METADATA, st.data())
def test_a_changed_character_makes_void_what_it_is_in(metadata: CheckpointText, data: st.DataObject) -> None:
    text = metadata.encode(MAX_TEXT_CHARS).text
    where = data.draw(st.integers(0, len(text) - 1))
    text = text[:where] + data.draw(st.characters()) + text[where + 1 :]
    found = decode_text(metadata.checkpoint.offset, text)
    if found is not None:
        told = metadata.checkpoint
        one_batch = told.plan and replace(told, plan=replace(told.plan, behind=()))
        assert found.checkpoint in {told, Checkpoint(told.offset), one_batch}


@given(st.one_of(st.text(), st.from_regex(r"\Aheadrace/1 n=[0-9]+ s=[0-9a-z+*,/.-]+\Z")), OFFSETS)
def test_no_text_makes_it_raise(text: str, offset: int) -> None:
    found = decode_text(offset, text)
    assert found is None or found.checkpoint == Checkpoint(offset)


@pytest.mark.parametrize(
    "state",
    [
        "zzzzzzzzzzzzzzzzzzzz*1//.",  # beyond the last offset
        "0*zzzzzz//.",  # attempts without end
        "0*//.",
        "1++*1//.",
        "/-zzz/.",  # a plan that begins below 0
        "/+/.",
        f"//{'z' * 9000}.",
        "//1,+.",
    ],
)
def test_numbers_that_no_commitment_has_are_nothing_even_with_the_right_checksum(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("headrace.runtime.partitions.offsets.checkpoint_text.crc32", lambda _: 0)
    assert read(5, f"headrace/1 n=8 s=0000000/{state}").checkpoint == Checkpoint(5)


def test_a_run_at_the_commit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.partitions.offsets.checkpoint_text.crc32", lambda _: 0)
    assert read(5, "headrace/1 n=8 s=0000000///0+2,1.").checkpoint.acked == ((9, 10),)


def test_what_the_first_release_wrote_is_read() -> None:
    assert decode_text(7, "headrace/1 n=8") == CheckpointText(8, Checkpoint(7))


def test_the_first_release_reads_what_is_written_now() -> None:
    """By `headrace/1 n=(digits)` and then a space or the end: replicas of both may share a group."""
    text = CheckpointText(8, Checkpoint(7, acked=((9, 10),))).encode(100).text
    assert text.startswith("headrace/1 n=8 ")
    assert CheckpointText(8, Checkpoint(7)).encode(100).text == "headrace/1 n=8 ."


def test_a_plan_that_one_batch_made_is_read_as_it_was_written_before_there_were_several() -> None:
    session = "6f1f0d2e-7c55-4b1e-9d3a-2f0c8b4d1a90"
    told = Checkpoint(5, ((5, 6, 2),), PlannedBatches(5, 505, session), ((600, 602),))
    text = "headrace/1 n=8 s=1xwwn9g/0*2/0+dv@6ktxh4animev0ksc76rl0ep3k/gj+1."
    assert decode_text(5, text) == CheckpointText(8, told)
    assert CheckpointText(8, told).encode(4096).text == text


def test_what_reads_one_batch_only_finds_the_first_of_several() -> None:
    """Replicas of both may share a group: what they don't know is a word behind what they do."""
    several = CheckpointText(
        8, Checkpoint(0, plan=PlannedBatches(0, 500, behind=((500, 1000), (1000, 1500))))
    )
    one = CheckpointText(8, Checkpoint(0, plan=PlannedBatches(0, 500)))
    assert several.encode(100).text.startswith(f"{one.encode(100).text} b=")


def test_as_many_full_batches_as_there_may_be_take_little_room() -> None:
    behind = tuple((at, at + 500) for at in range(500, 500 * MOST_PLANNED, 500))
    encoded = CheckpointText(8, Checkpoint(0, plan=PlannedBatches(0, 500, behind=behind))).encode(60)
    assert encoded.is_whole
    assert read(0, encoded.text).checkpoint.plan == PlannedBatches(0, 500, behind=behind)


def test_no_text_stands_for_more_batches_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.partitions.offsets.checkpoint_text.crc32", lambda _: 0)
    plan = read(5, "headrace/1 n=8 s=0000000//0+9/. b=0000000/0+9*zzzzzz,3*zzz.").checkpoint.plan
    assert plan is not None
    assert len(plan.behind) == MOST_PLANNED


def test_batches_behind_no_plan_are_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.partitions.offsets.checkpoint_text.crc32", lambda _: 0)
    assert read(5, "headrace/1 n=8 b=0000000/0+9*3.").checkpoint == Checkpoint(5)


def test_metadata_that_was_carried_to_another_offset_says_nothing_of_it() -> None:
    text = CheckpointText(8, Checkpoint(7, attempts=((7, 8, 2),), acked=((9, 10),))).encode(100).text
    assert decode_text(8, text) == CheckpointText(8, Checkpoint(8))


def test_a_batch_that_failed_as_a_whole_takes_little_room() -> None:
    failed = Checkpoint(100, attempts=((100, 10_100, 1),))
    encoded = CheckpointText(8, failed).encode(60)
    assert encoded.is_whole
    assert read(100, encoded.text).checkpoint == failed


def test_words_of_versions_to_come_are_skipped() -> None:
    text = CheckpointText(8, Checkpoint(7, acked=((9, 10),))).encode(100).text
    assert read(7, f"{text} spark=abc").checkpoint.acked == ((9, 10),)


@pytest.mark.parametrize("text", [None, "", "{}", "headrace/2 n=4", "something else", "headrace/1 n=\u0663"])
def test_metadata_of_others_is_left_alone(text: str | None) -> None:
    assert decode_text(5, text) is None
