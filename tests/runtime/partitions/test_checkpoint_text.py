"""What a commit carries besides its offset, and what is left of it in little room or in other hands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.partitions.checkpoint import Checkpoint, Plan
from headrace.runtime.partitions.checkpoint_text import (
    MAX_TEXT_CHARS,
    TOPIC_ID_CHARS,
    CheckpointText,
    decode_text,
)

OFFSETS = st.integers(0, 2**62)
LENGTHS = st.integers(1, 2**30)


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
        plan = Plan(first, end, draw(st.uuids().map(str) | st.just("")))
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
    assert encoded.holds_plan
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
    assert kept.plan is None or (kept.plan == told.plan and kept.attempts == told.attempts)
    assert kept.acked == told.acked[: len(kept.acked)]
    assert not kept.acked or (kept.attempts, kept.plan) == (told.attempts, told.plan)
    assert encoded.holds_plan == ((kept.attempts, kept.plan) == (told.attempts, told.plan))
    assert encoded.is_whole == (kept == told)


@given(METADATA, st.integers(0, 500))
def test_a_text_that_was_cut_short_tells_nothing_that_was_not_written(
    metadata: CheckpointText, length: int
) -> None:
    text = metadata.encode(MAX_TEXT_CHARS).text
    found = decode_text(metadata.checkpoint.offset, text[:length])
    if found is not None and length < len(text):
        assert found.checkpoint == Checkpoint(metadata.checkpoint.offset)
        assert found.first_partition_count <= metadata.first_partition_count


@given(METADATA, st.data())
def test_a_changed_character_makes_the_state_void(metadata: CheckpointText, data: st.DataObject) -> None:
    text = metadata.encode(MAX_TEXT_CHARS).text
    where = data.draw(st.integers(0, len(text) - 1))
    text = text[:where] + data.draw(st.characters()) + text[where + 1 :]
    found = decode_text(metadata.checkpoint.offset, text)
    if found is not None:
        assert found.checkpoint in {metadata.checkpoint, Checkpoint(metadata.checkpoint.offset)}


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
    monkeypatch.setattr("headrace.runtime.partitions.checkpoint_text.crc32", lambda _: 0)
    assert read(5, f"headrace/1 n=8 s=0000000/{state}").checkpoint == Checkpoint(5)


def test_a_run_at_the_commit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.partitions.checkpoint_text.crc32", lambda _: 0)
    assert read(5, "headrace/1 n=8 s=0000000///0+2,1.").checkpoint.acked == ((9, 10),)


def test_what_the_first_release_wrote_is_read() -> None:
    assert decode_text(7, "headrace/1 n=8") == CheckpointText(8, Checkpoint(7))


def test_the_first_release_reads_what_is_written_now() -> None:
    """By `headrace/1 n=(digits)` and then a space or the end: replicas of both may share a group."""
    text = CheckpointText(8, Checkpoint(7, acked=((9, 10),))).encode(100).text
    assert text.startswith("headrace/1 n=8 ")
    assert CheckpointText(8, Checkpoint(7)).encode(100).text == "headrace/1 n=8"


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
