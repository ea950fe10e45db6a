"""Every promise on records, against a model: a few hundred histories. `make storm` has many more."""

from effort import examples
from model import check


def test_whatever_fails_no_record_is_lost_repeated_without_need_or_committed_before_it_is_done() -> None:
    check(examples=examples(150), steps=60)
