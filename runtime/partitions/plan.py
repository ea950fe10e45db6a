"""What a partition keeps of its batch plan: which offsets come again as they were, and where they may run."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.runtime.partitions.checkpoint import Plan


class KeptPlan:
    """`plan` is what a commit says. One plan at a time: the lowest that is open."""

    __slots__ = ("_deaths", "_has_died", "_is_in_flight", "_is_only_named", "plan")

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self._is_in_flight = False  # what is in flight is what it says
        self._is_only_named = False  # it names a session of ours, which hasn't begun with it
        self._has_died = False  # a worker, with what is in flight
        self._deaths = 0  # that made suspects

    def of(self, offset: int | None) -> Plan | None:
        """The plan, if the record at `offset` belongs to it."""
        plan = self.plan
        return plan if plan is not None and offset is not None and offset in plan else None

    def missing_from(self, position: int) -> int:
        """How many offsets from `position` on are still to be fetched of the plan that `position` is in."""
        return 0 if self.plan is None or position < self.plan.first else max(self.plan.end - position, 0)

    def propose(self, part: Plan) -> None:
        """A batch with `part` is to be handed out. A plan that lies further on is still to be kept."""
        if self.plan is None or part.first >= self.plan.end:
            self.plan = part

    def name_session(self, offset: int | None, session: str) -> None:
        """The planned record at `offset` will run in this Spark session."""
        if (plan := self.of(offset)) is not None:
            self.plan = replace(plan, session=session)
            self._is_only_named = True

    def on_taken(self, first: int | None) -> None:
        """A batch from `first` on is handed out."""
        self._is_only_named = self._has_died = False
        self._is_in_flight = self.plan is not None and first is not None and self.plan.first <= first

    def on_outcome(self, *, is_kept: bool) -> None:
        """All that was in flight has its outcome. A kept plan names no session: nothing runs there."""
        if self._is_in_flight and self.plan is not None:
            self.plan = replace(self.plan, session="") if is_kept else None
        self._deaths = 0

    def drop_started(self) -> None:
        """What was in flight need not come again as it was. A plan that lies further on stays."""
        if self._is_in_flight:
            self.plan = None
        self._deaths = 0  # whatever is planned next has its own

    def on_died(self) -> None:
        """The worker did that has what is in flight."""
        self._has_died = True

    def on_failed(self, failed: Sequence[tuple[int, int]]) -> None:
        """These offsets `[first, end)` of what is in flight did.

        What a worker died in comes again as it was, if it is one record: that has failed, and is no suspect.
        """
        is_all = self.plan is not None and list(failed) == [(self.plan.first, self.plan.end)]
        if not (self._has_died and is_all):
            self.drop_started()

    def may_repeat_after_death(self) -> bool:
        """A worker died in it. Once more as it was, because only the same batch replaces what it wrote."""
        self._deaths += 1
        return self.plan is not None and self._deaths == 1

    def on_settled_below(self, offset: int) -> None:
        """What nobody has to repeat needs no plan."""
        if self.plan is not None and self.plan.end <= offset:
            self.plan = None

    def on_revoked(self) -> None:
        """Nothing of what is only named runs in that session, and others may."""
        if self._is_only_named and self.plan is not None:
            self.plan = replace(self.plan, session="")
