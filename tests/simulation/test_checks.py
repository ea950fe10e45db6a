"""What the simulation knows by itself of a record."""

from typing import Any, cast

from checks import Call, Delivery, History

from headrace.runtime.config.delivery import AckMode, DeliveryPolicy
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.key import PartitionKey

KEY = PartitionKey("t", 0)
PROCESS = cast("Any", "worker 0")
POLICY = DeliveryPolicy(ack_mode=AckMode.EXPLICIT_ONLY, ack_deadline_seconds=0.3)


class _Scene:
    """One record, handled well at 0 s, and not acked yet."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(POLICY, {KEY: [0]}, lambda: self.now)
        delivery = Delivery(KEY, Checkpoint(0), {}, None)
        self.history.on_begin(1, delivery)
        self.history.messages.on_start(KEY, 0)
        self.history.on_end(Call(PROCESS, [(delivery, range(1))]), ["ok"])


def test_a_record_that_is_not_acked_in_time_has_failed_though_it_does_not_come_again() -> None:
    scene = _Scene()
    assert scene.history.failures_of(KEY, 0) == 0
    scene.now = 0.3
    assert scene.history.failures_of(KEY, 0) == 1


def test_no_acked_record_has_failed_for_want_of_an_ack() -> None:
    scene = _Scene()
    scene.now = 0.2
    scene.history.acked[KEY][0] = scene.now
    scene.now = 0.3
    assert scene.history.failures_of(KEY, 0) == 0
