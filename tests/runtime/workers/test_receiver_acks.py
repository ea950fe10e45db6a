"""Joining acks changes how many there are, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st
from lone_worker import Heard

from headrace.runtime.wire.framing import FrameKind
from headrace.runtime.wire.outcomes import Ack, Nack, encode_ack
from headrace.runtime.workers.in_flight import InFlight
from headrace.runtime.workers.receiver import FrameReceiver

acks = st.builds(
    Ack,
    topic=st.sampled_from(["a", "b"]),
    partition=st.integers(0, 1),
    offset=st.integers(0, 4),
    is_through=st.booleans(),
    log=st.sampled_from(["", ":0", "a:0", "a:1"]),
)


class HeardAcks(Heard):
    """Keeps whole acks."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Ack] = []

    def on_ack(self, said: Ack | Nack) -> None:
        assert isinstance(said, Ack)
        self.found.append(said)


def received(sent: list[Ack | None]) -> list[Ack]:
    """What is heard of these frames; None is the end of a read."""
    heard = HeardAcks()
    receiver = FrameReceiver(0, InFlight(), {}, heard, on_ready=lambda: None)
    for ack in [*sent, None]:
        if ack is None:
            receiver.on_read()
        else:
            receiver.on_frame(FrameKind.ACK, encode_ack(ack)[8:])
    return heard.found


@given(st.lists(acks | st.none(), max_size=40))
def test_they_come_out_as_they_went_in(sent: list[Ack | None]) -> None:
    found = received(sent)
    assert [single for ack in found for single in ack.singles()] == [ack for ack in sent if ack is not None]


def test_a_row_of_acks_is_one() -> None:
    found = received([Ack("a", 3, offset, is_through=False) for offset in range(7, 20)])
    assert found == [Ack("a", 3, 19, is_through=False, count=13)]
    assert found[0].first == 7
