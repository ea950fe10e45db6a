"""What a worker says, frame by frame, against what was meant."""

import struct

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lone_worker import Heard, HeardLane

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.wire.framing import FrameKind, ProtocolViolationError, frame, split_frames
from headrace.runtime.wire.outcomes import (
    Ack,
    encode_about,
    encode_ack,
    encode_acked,
    encode_failed,
    encode_progress,
    encode_returned,
    encode_seq,
)
from headrace.runtime.wire.produce import Message, ProduceRequest, encode_produce
from headrace.runtime.wire.reply import MAX_PART_BYTES, Reply, encode_part, encode_reply
from headrace.runtime.workers.in_flight import InFlight
from headrace.runtime.workers.receiver import FrameReceiver

Outcome = tuple[str, int, int]


class Talk:
    """The receiver of a worker that holds runs of these lengths, each of its own lane."""

    def __init__(self, lengths: list[int]) -> None:
        self.heard = Heard()
        self.in_flight = InFlight()
        self.lanes = [HeardLane(self.heard, *[b""] * n, number=i) for i, n in enumerate(lengths)]
        for lane in self.lanes:
            self.in_flight.add(lane, lane.take(64))
        known: dict[int, Lane] = {lane.id: lane for lane in self.lanes}
        self.receiver = FrameReceiver(0, self.in_flight, known, self.heard, on_ready=lambda: None)

    def hear(self, *frames: bytes) -> None:
        for kind, body in split_frames(bytearray(b"".join(frames)), from_worker=True):
            self.receiver.on_frame(kind, body)
        self.receiver.on_read()

    @property
    def outcomes(self) -> list[Outcome]:
        told = [told for told in self.heard.told if told[0] not in ("replied", "acked", "produced")]
        return [(what, number, offset) for what, number, offsets, *_ in told for offset in offsets]


lengths = st.lists(st.integers(1, 5), min_size=1, max_size=5)
fates = st.sampled_from(["handled", "unacked", "failed", "handled", "replied"])


@given(lengths, st.data())
def test_each_record_has_the_outcome_that_was_meant_once_and_in_order(
    lengths: list[int], data: st.DataObject
) -> None:
    talk = Talk(lengths)
    book = [(number, offset) for number, length in enumerate(lengths) for offset in range(length)]
    reply = Reply(200, "text/plain", (), b"")
    meant: list[Outcome] = []
    for seq, where in enumerate(book):
        fate = data.draw(fates)
        meant.append(("handled" if fate == "replied" else fate, *where))
        if fate == "replied":
            talk.hear(encode_reply(seq, reply))
            assert talk.heard.replies[where] == reply
            assert meant[-1] not in talk.outcomes, "its outcome is still to come"
        elif fate == "unacked":
            talk.hear(encode_seq(FrameKind.UNACKED, seq))
        elif fate == "failed":
            talk.hear(encode_failed(seq, seq + 1, "it failed"))
        if data.draw(st.booleans()):
            talk.hear(encode_progress(seq + 1, 0, 1))
            assert talk.outcomes == meant
    talk.hear(encode_progress(len(book), 0, 0))
    assert talk.outcomes == meant
    assert not talk.in_flight.runs
    assert not any(lane.in_flight_count for lane in talk.lanes)


@given(lengths, st.data())
def test_what_comes_back_has_no_other_outcome(lengths: list[int], data: st.DataObject) -> None:
    talk = Talk(lengths)
    number = data.draw(st.integers(0, len(lengths) - 1))
    end = sum(lengths[: number + 1])
    first = data.draw(st.integers(end - lengths[number], end - 1))
    talk.lanes[number].on_recalled()
    talk.hear(encode_returned([(first, end)]), encode_progress(sum(lengths), 0, 0))
    kept = lengths[number] - (end - first)
    back = [("returned", number, offset) for offset in range(kept, lengths[number])]
    assert [told for told in talk.outcomes if told[0] == "returned"] == back
    assert len(talk.outcomes) == sum(lengths)
    assert talk.lanes[number].is_deliverable


def test_acks_that_follow_each_other_are_one_and_a_span_that_is_seen_again_counts_once() -> None:
    talk = Talk([4])
    talk.hear(*[encode_ack(Ack("t", 0, offset, is_through=False)) for offset in (0, 1, 3)])
    assert talk.heard.told == [("acked", 0, [1]), ("acked", 0, [3])]
    talk.heard.told.clear()
    lane_id = talk.lanes[0].id
    for end in (2, 2, 4, 3):
        talk.hear(encode_acked(lane_id, 0, end, 1))
    assert talk.heard.told == [("acked", 0, [1]), ("acked", 0, [3])]


def test_a_record_that_comes_again_may_be_acked_again() -> None:
    """By the same worker, with no other ack between the two."""
    talk = Talk([1])
    for number in (1, 1, 2):
        talk.hear(encode_acked(talk.lanes[0].id, 0, 1, number))
    assert talk.heard.told == [("acked", 0, [0]), ("acked", 0, [0])]


def test_what_is_not_a_workers_to_say_is_refused() -> None:
    for kind in (kind for kind in FrameKind if kind < FrameKind.READY):
        with pytest.raises(ProtocolViolationError, match=f"does not send {kind.name}"):
            Talk([1]).hear(frame(kind))
    for said in (encode_seq(FrameKind.UNACKED, 1), encode_reply(1, Reply(200, "", (), b""))):
        with pytest.raises(ProtocolViolationError, match="record 1"):
            Talk([1]).hear(said)


numbers = st.integers(0, 12) | st.sampled_from([2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
offsets = st.integers(-2, 12) | st.sampled_from([-(2**63), 2**31, 2**62, 2**63 - 1])
bytes_or_none = st.none() | st.binary(max_size=3)
messages = st.builds(
    Message,
    st.text(max_size=3),
    bytes_or_none,
    bytes_or_none,
    headers=st.just(()),
    partition=st.none() | st.integers(0, 2**31 - 1),
    timestamp=st.none() | st.integers(0, 2**63 - 1),
    output=st.text(max_size=3),
)
frames_of_workers = st.one_of(
    st.builds(ProduceRequest, numbers, st.integers(0, 2**32 - 1), offsets, messages).map(encode_produce),
    st.builds(encode_progress, numbers, numbers, st.integers(0, 2**32 - 1), numbers),
    st.builds(encode_failed, numbers, numbers, st.text(max_size=5)),
    st.builds(encode_returned, st.lists(st.tuples(numbers, numbers), max_size=3)),
    st.builds(encode_seq, st.just(FrameKind.UNACKED), numbers),
    st.builds(encode_acked, st.integers(0, 2**32 - 1), offsets, offsets, st.integers(0, 3)),
    st.builds(Ack, st.text(max_size=3), st.integers(0, 3), offsets, st.booleans()).map(encode_ack),
    st.builds(encode_about, st.just(FrameKind.LOG), numbers, st.text(max_size=9)),
    st.builds(
        encode_reply,
        numbers,
        st.builds(Reply, st.integers(0, 2**32 - 1), st.text(), st.just(()), st.binary()),
    ),
    st.builds(
        frame,
        st.sampled_from([kind for kind in FrameKind if kind >= FrameKind.READY]),
        st.binary(max_size=40),
    ),
)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """A frame with any numbers, cut short perhaps, or of a kind or length that can't be."""
    whole: bytes = draw(frames_of_workers)
    body = whole[8 : draw(st.integers(8, len(whole)))] if draw(st.booleans()) else whole[8:]
    kind = draw(st.just(whole[4]) | st.just(whole[4]) | st.integers(0, 255))
    length = draw(st.just(4 + len(body)) | st.just(4 + len(body)) | st.sampled_from([0, 2**32 - 1, 2**30]))
    head = struct.pack("<IB", length, kind) + whole[5:8]
    return head + body


@settings(max_examples=examples(400))
@given(lengths, st.lists(hostile(), max_size=8), st.data())
def test_whatever_a_worker_says_no_record_has_two_outcomes_or_none(
    lengths: list[int], frames: list[bytes], data: st.DataObject
) -> None:
    talk = Talk(lengths)
    given = [(number, offset) for number, length in enumerate(lengths) for offset in range(length)]
    if data.draw(st.booleans()):
        frames.append(encode_acked(talk.lanes[0].id, data.draw(offsets), data.draw(offsets), 1))
    received = bytearray()
    try:
        for one in frames:
            received += one
            for kind, body in split_frames(received, from_worker=True):
                talk.receiver.on_frame(kind, body)
            talk.receiver.on_read()
    except ProtocolViolationError:
        pass  # its channel ends it there
    ended = [(number, offset) for _, number, offset in talk.outcomes]
    held = [(run.lane.key.partition, r.offset) for run in talk.in_flight.runs for r in run.records]
    assert sorted([*ended, *held]) == given
    assert len(talk.heard.told) < 100


@pytest.mark.parametrize(
    "frame",
    [
        encode_progress(3, 0, 1),
        encode_progress(1, 2**63, 1),
        encode_progress(1, 0, 2**31),
        encode_progress(1, 5, 1, 6),
        encode_failed(2**63, 2**63 + 1, ""),
        encode_failed(1, 1, ""),
        encode_failed(0, 2, ""),
        encode_seq(FrameKind.UNACKED, 2),
        encode_returned([(0, 1)]),
        encode_returned([(1, 3)]),
        frame(FrameKind.READY),
        frame(FrameKind.READY, b"\1\1") + frame(FrameKind.READY, b"\1"),
        encode_about(FrameKind.LOG, 0, '{"level": "high", "message": "", "with": {}}'),
        encode_about(FrameKind.LOG, 0, "[" * 100_000),
        encode_reply(0, Reply(7, "", (), b"")),
        frame(FrameKind.REPLY, struct.pack("<QI?II", 0, 200, False, 0, 8), struct.pack("<ii", -8, 0)),
        encode_part(7, b"", is_last=True),
        encode_part(0, bytes(MAX_PART_BYTES + 1), is_last=False),
        frame(FrameKind.REPLY_PART, b"\0"),
        frame(FrameKind.ACK, b"\0"),
        struct.pack("<I", 0) + frame(FrameKind.LOG)[4:],
        struct.pack("<I", 2**31) + frame(FrameKind.LOG)[4:],
        struct.pack("<I", 3 << 20) + frame(FrameKind.LOG)[4:],
        struct.pack("<IB3s", 4, 99, frame(FrameKind.LOG)[5:8]),
        struct.pack("<II", 4, FrameKind.LOG),
    ],
)
def test_what_a_worker_cannot_know_is_refused_before_anything_is_made_of_it(frame: bytes) -> None:
    talk = Talk([2])
    with pytest.raises(ProtocolViolationError):
        talk.hear(frame)
    assert talk.heard.told == []
    assert len(talk.in_flight) == 2


@pytest.mark.parametrize("span", [(0, 2**62), (-1, 1), (0, 3), (1, 1), (2**62, 2**62 + 1)])
def test_acks_of_what_it_was_not_given_are_refused(span: tuple[int, int]) -> None:
    talk = Talk([2])
    with pytest.raises(ProtocolViolationError, match="it acks t/0"):
        talk.hear(encode_acked(talk.lanes[0].id, *span, 1))
    talk.hear(encode_acked(2**32 - 1, 0, 2**62, 1))  # of no lane that is here any more
    assert talk.heard.told == []
