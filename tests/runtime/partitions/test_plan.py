"""What a partition keeps of its batch plan."""

from headrace.runtime.partitions.checkpoint import Plan
from headrace.runtime.partitions.plan import KeptPlan


def handed_out(kept: KeptPlan) -> KeptPlan:
    kept.propose(Plan(0, 2))
    kept.on_taken(0)
    return kept


def test_a_batch_comes_again_as_it_was_after_one_death() -> None:
    kept = handed_out(KeptPlan(None))
    assert kept.may_repeat_after_death()
    assert not kept.may_repeat_after_death()


def test_a_death_before_a_failure_is_not_one_of_the_batch_behind_it() -> None:
    kept = handed_out(KeptPlan(None))
    assert kept.may_repeat_after_death()
    kept.drop_started()
    assert handed_out(kept).may_repeat_after_death()
