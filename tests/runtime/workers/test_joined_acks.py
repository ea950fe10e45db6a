"""Joining acks changes how many there are, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.wire.records import Ack, encode_ack
from headrace.runtime.workers.joined_acks import JoinedAcks

acks = st.builds(
    Ack,
    topic=st.sampled_from(["a", "b"]),
    partition=st.integers(0, 1),
    offset=st.integers(0, 4),
    is_through=st.booleans(),
    log=st.sampled_from(["", ":0", "a:0", "a:1"]),
)


@given(st.lists(acks | st.none(), max_size=40))
def test_they_come_out_as_they_went_in(sent: list[Ack | None]) -> None:
    found: list[Ack] = []
    joined = JoinedAcks(found.append)
    for ack in sent:
        if ack is None:
            joined.flush()
        else:
            joined.add(encode_ack(ack)[8:])
    joined.flush()
    assert [single for ack in found for single in ack.singles()] == [ack for ack in sent if ack is not None]


def test_a_row_of_acks_is_one() -> None:
    found: list[Ack] = []
    joined = JoinedAcks(found.append)
    for offset in range(7, 20):
        joined.add(encode_ack(Ack("a", 3, offset, is_through=False))[8:])
    joined.flush()
    assert found == [Ack("a", 3, 19, is_through=False, count=13)]
    assert found[0].first == 7
