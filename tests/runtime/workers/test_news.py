"""What a worker says, frame by frame, against what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lone_worker import Heard, a_lane

from headrace.runtime.partitions.lane import Lane
from headrace.runtime.testing.lane import TrialLane
from headrace.runtime.wire import frames as wire
from headrace.runtime.wire.frames import Ack, Kind
from headrace.runtime.wire.reply import Reply, encode_reply
from headrace.runtime.workers.in_flight import InFlight
from headrace.runtime.workers.news import News

Outcome = tuple[str, int, int]


class Talk:
    """News of a worker that holds runs of these lengths, each of its own lane."""

    def __init__(self, lengths: list[int]) -> None:
        self.heard = Heard()
        self.in_flight = InFlight()
        self.lanes: list[TrialLane] = [a_lane(*[b""] * n, number=i) for i, n in enumerate(lengths)]
        for lane in self.lanes:
            self.in_flight.add(lane, lane.take(64))
        known: dict[int, Lane] = {lane.id: lane for lane in self.lanes}
        self.news = News(0, self.in_flight, known, self.heard, on_ready=lambda: None)

    def hear(self, *frames: bytes) -> None:
        for kind, body in wire.split_frames(bytearray(b"".join(frames))):
            self.news.on_frame(kind, body)
        self.news.on_read()

    @property
    def outcomes(self) -> list[Outcome]:
        told = [told for told in self.heard.told if told[0] not in ("replied", "acked")]
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
            talk.hear(wire.encode_seq(Kind.UNACKED, seq))
        elif fate == "failed":
            talk.hear(wire.encode_failed(seq, seq + 1, "it failed"))
        if data.draw(st.booleans()):
            talk.hear(wire.encode_progress(seq + 1, 0, 1))
            assert talk.outcomes == meant
    talk.hear(wire.encode_progress(len(book), 0, 0))
    assert talk.outcomes == meant
    assert not talk.in_flight.runs
    assert not any(lane.in_flight_count for lane in talk.lanes)


@given(lengths, st.data())
def test_what_comes_back_has_no_other_outcome(lengths: list[int], data: st.DataObject) -> None:
    talk = Talk(lengths)
    number = data.draw(st.integers(0, len(lengths) - 1))
    end = sum(lengths[: number + 1])
    first = data.draw(st.integers(end - lengths[number], end - 1))
    talk.hear(wire.encode_returned([(first, end)]), wire.encode_progress(sum(lengths), 0, 0))
    kept = lengths[number] - (end - first)
    back = [("returned", number, offset) for offset in range(kept, lengths[number])]
    assert [told for told in talk.outcomes if told[0] == "returned"] == back
    assert len(talk.outcomes) == sum(lengths)
    assert talk.lanes[number].is_deliverable


def test_acks_that_follow_each_other_are_one_and_a_span_that_is_seen_again_counts_once() -> None:
    talk = Talk([4])
    talk.hear(*[wire.encode_ack(Ack("t", 0, offset, is_through=False)) for offset in (0, 1, 3)])
    assert talk.heard.told == [("acked", 0, [1]), ("acked", 0, [3])]
    talk.heard.told.clear()
    lane_id = talk.lanes[0].id
    for end in (2, 2, 4, 3):
        talk.hear(wire.encode_acked(lane_id, 0, end))
    assert talk.heard.told == [("acked", 0, [1]), ("acked", 0, [3])]


def test_what_is_not_a_workers_to_say_is_refused() -> None:
    for kind in (kind for kind in Kind if kind < Kind.READY):
        with pytest.raises(AssertionError, match=f"does not send {kind.name}"):
            Talk([1]).hear(wire.frame(kind))
    for frame in (wire.encode_seq(Kind.UNACKED, 1), encode_reply(1, Reply(200, "", (), b""))):
        with pytest.raises(AssertionError, match="only"):
            Talk([1]).hear(frame)
