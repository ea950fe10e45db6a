"""REPLY frames: what a worker says is what its processor hears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.wire.framing import FrameKind, split_frames
from headrace.runtime.wire.reply import (
    NOBODY,
    Reply,
    decode_part,
    decode_reply,
    decode_taken,
    encode_part,
    encode_reply,
    encode_taken,
)

seqs = st.integers(0, 2**64 - 1)
headers = st.lists(st.tuples(st.text(), st.none() | st.binary(max_size=50)), max_size=5).map(tuple)
bodies = st.binary(max_size=2000)
replies = st.builds(Reply, st.integers(100, 599), st.text(max_size=50), headers, bodies, st.booleans())


@given(st.lists(st.tuples(seqs, replies), max_size=4))
def test_replies_arrive_as_they_were_sent(sent: list[tuple[int, Reply]]) -> None:
    received = bytearray(b"".join(encode_reply(seq, reply) for seq, reply in sent))
    frames = list(split_frames(received))
    assert [kind for kind, _ in frames] == [FrameKind.REPLY] * len(sent)
    assert [decode_reply(body) for _, body in frames] == sent
    assert not received


@given(seqs, replies, st.data())
def test_a_reply_that_arrives_in_pieces_is_one(seq: int, reply: Reply, data: st.DataObject) -> None:
    frame = encode_reply(seq, reply)
    cut = data.draw(st.integers(0, len(frame) - 1))
    received = bytearray(frame[:cut])
    assert list(split_frames(received)) == []
    received += frame[cut:]
    ((_, body),) = split_frames(received)
    assert decode_reply(body) == (seq, reply)


@pytest.mark.parametrize("mebibytes", [0, 1, 40])
def test_a_body_may_have_many_megabytes(mebibytes: int) -> None:
    reply = Reply(200, "application/octet-stream", (), bytes(range(256)) * (mebibytes << 12))
    ((_, body),) = split_frames(bytearray(encode_reply(0, reply)))
    assert decode_reply(body) == (0, reply)


@given(seqs, bodies, st.booleans())
def test_parts_and_what_is_taken_of_them_arrive_as_they_were_sent(
    seq: int, data: bytes, is_last: bool
) -> None:
    ((kind, body),) = split_frames(bytearray(encode_part(seq, data, is_last=is_last)))
    assert (kind, decode_part(body)) == (FrameKind.REPLY_PART, (seq, is_last, data))
    ((kind, body),) = split_frames(bytearray(encode_taken(seq, NOBODY)))
    assert (kind, decode_taken(body)) == (FrameKind.TAKEN, (seq, NOBODY))
