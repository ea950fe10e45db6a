"""What a worker knows of a partition that it handles records of."""

import nuclio_sdk
import pytest

from headrace.runtime.worker.api.partition_view import PartitionView

TRIGGER = nuclio_sdk.TriggerInfo("kafka-cluster", "orders-trigger")


def waiting(acked: int, *, is_through: bool = False) -> PartitionView:
    """Records 5 to 7 wait, and one of them was acked meanwhile."""
    view = PartitionView("orders", 0, TRIGGER)
    view.received(5, 8)
    view.acked(acked, is_through=is_through)
    return view


@pytest.mark.parametrize("is_through", [False, True])
def test_a_record_that_was_acked_while_it_waits_is_not_handled(is_through: bool) -> None:
    view = waiting(6, is_through=is_through)
    assert [view.is_acked(offset, 1) for offset in (5, 6, 7)] == [is_through, True, False]


@pytest.mark.parametrize("is_through", [False, True])
def test_a_record_that_has_failed_is_handled_again_though_its_last_delivery_is_acked_late(
    is_through: bool,
) -> None:
    view = waiting(6, is_through=is_through)
    assert not any(view.is_acked(offset, 2) for offset in (5, 6, 7))


def test_an_ack_of_one_delivery_says_nothing_of_those_behind_the_next() -> None:
    view = waiting(6)
    assert not view.is_acked(6, 2)
    assert not view.is_acked(6, 1)
