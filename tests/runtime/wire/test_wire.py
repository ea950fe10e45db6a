"""Whatever goes into the wire comes out the same."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.wire.framing import FrameKind, frame, split_frames
from headrace.runtime.wire.outcomes import (
    decode_about,
    decode_failed,
    decode_progress,
    decode_returned,
    encode_about,
    encode_failed,
    encode_progress,
    encode_returned,
)
from headrace.runtime.wire.records import (
    Headers,
    RunHeader,
    decode_lane_id,
    decode_records,
    decode_run_header,
    encode_recall,
    encode_run,
)


@dataclass
class Record:
    offset: int
    timestamp: int
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


some_bytes = st.none() | st.binary(max_size=40)
header_names = st.binary(max_size=12).map(lambda raw: raw.decode(errors="surrogateescape"))
records = st.builds(
    Record,
    offset=st.integers(0, 2**62),
    timestamp=st.integers(-1, 2**52),
    timestamp_type=st.sampled_from([None, 0, 1]),
    key=some_bytes,
    value=some_bytes,
    headers=st.lists(st.tuples(header_names, some_bytes), max_size=4).map(tuple),
)


@given(st.lists(records, min_size=1, max_size=20), st.integers(1, 2**31))
def test_a_run_arrives_as_it_was_sent(sent: list[Record], attempt: int) -> None:
    header = RunHeader(7, 3, 2**40, attempt, len(sent))
    received = bytearray(encode_run(header, sent))
    ((kind, body),) = split_frames(received)
    assert (kind, decode_run_header(body)) == (FrameKind.RUN, header)
    assert not received
    for got, record in zip(decode_records(body), sent, strict=True):
        assert (got.offset, got.timestamp) == (record.offset, record.timestamp)
        assert (got.key, got.value) == (record.key, record.value)
        assert got.timestamp_type == (-1 if record.timestamp_type is None else record.timestamp_type)
        assert tuple(got.headers) == tuple(record.headers)


@given(st.lists(st.binary(max_size=30), max_size=8), st.data())
def test_frames_are_found_however_the_stream_is_cut(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(FrameKind.LOG, body) for body in bodies)
    received, found = bytearray(), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        received += stream[:cut]
        stream = stream[cut:]
        found += [body for _, body in split_frames(received)]
    assert found == bodies
    assert not received


@given(st.integers(0, 2**63), st.text(st.characters(codec="utf-8"), max_size=20))
def test_small_frames_round_trip(seq: int, text: str) -> None:
    assert decode_about(encode_about(FrameKind.LOG, seq, text)[8:]) == (seq, text)
    assert decode_failed(encode_failed(seq, seq + 3, text)[8:]) == (seq, seq + 3, False, text)
    named = encode_failed(seq, seq + 3, text, is_named=True)
    assert decode_failed(named[8:]) == (seq, seq + 3, True, text)
    assert decode_progress(encode_progress(seq, 5, 6, 4)[8:]) == (seq, 5, 6, 4)
    assert decode_returned(encode_returned([(seq, seq + 1), (3, 9)])[8:]) == [
        (seq, seq + 1),
        (3, 9),
    ]
    assert decode_lane_id(encode_recall(seq % 2**32)[8:]) == seq % 2**32
