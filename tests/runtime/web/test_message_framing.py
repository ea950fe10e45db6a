"""Where requests and frames end in what has come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_attacks import frame

from headrace.runtime.web.message_framing import (
    FRAME_OVERHEAD_BYTES,
    FrameTracker,
    UnclearFramingError,
    request_ends,
)

pytestmark = pytest.mark.quick
HEAD = b"POST / HTTP/1.1\r\nX: y\r\n\r\n"


def test_requests_with_lengths_end_behind_their_bodies() -> None:
    body = b"a\r\n\r\nb"  # which looks like the end of a head
    data = b"rest" + HEAD + body + HEAD + HEAD[:-2]
    assert request_ends(data, 4, [len(body), 0]) == [4 + len(HEAD) + 6, 4 + 2 * len(HEAD) + 6]


def test_the_last_one_may_be_in_chunks_and_others_may_not() -> None:
    chunked = HEAD + b"4\r\n\r\n\r\n\r\n0\r\n\r\n"
    assert request_ends(HEAD + chunked + b"GET /", 0, [0, None]) == [len(HEAD), len(HEAD + chunked)]
    with pytest.raises(UnclearFramingError):
        request_ends(chunked + HEAD, 0, [None, 0])


def test_a_head_that_is_not_there_is_no_end() -> None:
    with pytest.raises(UnclearFramingError):
        request_ends(HEAD, 0, [0, 0])


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 125, 126, 70_000]), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 5000),
)
def test_messages_end_where_their_last_frame_does_in_whatever_pieces(
    frames: list[tuple[int, bool]], piece_bytes: int
) -> None:
    data, wanted, cost = b"", list[int](), 0
    for length, is_last in frames:
        one = frame(bytes(length), 2, flags=0x80 if is_last else 0)
        data += one
        cost += len(one) + FRAME_OVERHEAD_BYTES
        if is_last:
            wanted.append(cost)
            cost = 0
    found = FrameTracker()
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    assert sum(found.feed(piece) for piece in pieces) == len(data) + len(frames) * FRAME_OVERHEAD_BYTES
    assert list(found.unread) == wanted
    assert found.is_masked


def test_a_ping_ends_no_message_and_a_frame_without_a_mask_is_seen() -> None:
    found = FrameTracker()
    found.feed(frame(b"{", flags=0) + frame(b"x", 9) + frame(b"}", 0))
    assert list(found.unread) == [7 + FRAME_OVERHEAD_BYTES, 2 * (7 + FRAME_OVERHEAD_BYTES)]
    found.feed(b"\x81\x02{}")
    assert not found.is_masked
