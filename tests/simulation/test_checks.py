"""What the simulation knows by itself of a record."""

from typing import Any, cast

from checks import Call, Delivery, History

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint

KEY = PartitionKey("t", 0)
PROCESS = cast("Any", "worker 0")
POLICY = DeliveryPolicy(ack_mode=AckMode.EXPLICIT_ONLY, ack_deadline_seconds=0.3)


class _Scene:
    """One record, handled well at 0 s, and not acked yet."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(POLICY, {KEY: [0]}, lambda: self.now)
        self.delivery = Delivery(KEY, Checkpoint(0), {}, None)
        self.history.on_begin(1, self.delivery)
        self.history.messages.on_start(KEY, 0)
        self.call = Call(PROCESS, [(self.delivery, range(1))])
        self.history._calls[PROCESS].append(self.call)
        self.history.on_end(self.call, ["ok"])

    def ack(self) -> None:
        self.history.on_ack(PROCESS, KEY, 0, 0, 1, is_through=False)


def test_a_record_that_is_not_acked_in_time_has_failed_though_it_does_not_come_again() -> None:
    scene = _Scene()
    assert scene.history.failures_of(KEY, 0) == 0
    scene.now = 0.3
    assert scene.history.failures_of(KEY, 0) == 1


def test_no_acked_record_has_failed_for_want_of_an_ack() -> None:
    scene = _Scene()
    scene.now = 0.2
    scene.ack()
    scene.now = 0.3
    assert scene.history.failures_of(KEY, 0) == 0


def test_an_ack_may_not_count_by_itself_once_a_message_of_a_failed_delivery_was_refused() -> None:
    scene = _Scene()
    scene.history.on_message(scene.call, KEY, 0, b"too large")
    scene.history.on_death(PROCESS, is_in_a_record=True, unsaid={scene.call.seq})
    scene.history.on_refused(b"too large")
    scene.ack()
    assert 0 not in scene.delivery.acked_at


def test_else_an_ack_counts() -> None:
    scene = _Scene()
    scene.ack()
    assert 0 in scene.delivery.acked_at
