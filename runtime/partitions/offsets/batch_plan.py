"""What a partition keeps of its batch plan: which offsets come again as they were, and where they may run."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED, PlannedBatches, Span

Told = tuple[int, tuple[Span, ...]]
"""What a commit says that is about to begin: which version of the plan, and its batches."""


class BatchPlan:
    """`plan` is what a commit says: the lowest batch that is open, and those that are planned behind it."""

    __slots__ = (
        "_deaths",
        "_has_died",
        "_is_in_flight",
        "_is_only_named",
        "_safe",
        "_told_end",
        "_version",
        "plan",
    )

    def __init__(self, plan: PlannedBatches | None) -> None:
        self.plan = plan
        self._is_in_flight = False  # what is in flight is what it says first
        self._is_only_named = False  # it names a session of ours, which hasn't begun with it
        self._has_died = False  # a worker, with what is in flight
        self._deaths = 0  # that made suspects
        self._safe: set[Span] = set()  # the batches of which a commit of ours has told
        self._told_end = (
            0 if plan is None else plan.last_end
        )  # an earlier owner may have begun those below it
        self._version = 0  # rises where a batch is dropped without an outcome

    def of(self, offset: int | None) -> PlannedBatches | None:
        """The batch that the record at `offset` belongs to, by itself."""
        plan = self.plan
        if plan is None or offset is None or (batch := plan.batch_at(offset)) is None:
            return None
        return PlannedBatches(*batch, plan.session)

    def missing_from(self, position: int, next_offset: int | None) -> int:
        """How many offsets are still to be fetched of the batch that goes next, or comes next by a fetch."""
        batch = self.of(position if next_offset is None else next_offset)
        return 0 if batch is None else max(batch.end - position, 0)

    # ---- before it is handed out

    def propose(self, part: PlannedBatches) -> None:
        """A batch with `part` is to be handed out: nothing is left of those before it.

        Those that lie further on are still to be kept. A commit names one session: what lies before a plan
        that names one isn't told of.
        """
        self._keep_above(part.first)
        if (plan := self.plan) is None:
            self.plan = part
        elif part.end <= plan.first and not plan.session:
            self.plan = replace(part, behind=plan.batches)

    def extend(self, batches: Sequence[Span]) -> None:
        """These are to be handed out too, after all others."""
        planned = () if self.plan is None else tuple(it for it in self.plan.batches if it[0] < it[1])
        session = self.plan.session if self.plan is not None else ""
        self.plan = PlannedBatches.of((*planned, *batches)[:MOST_PLANNED], session)

    def name_session(self, offset: int | None, session: str) -> None:
        """The planned record at `offset` will run in this Spark session."""
        if self.plan is not None and self.of(offset) is not None:
            self.plan = replace(self.plan, session=session)
            self._is_only_named = True

    def told(self) -> Told:
        """What a commit that begins now, or later, tells: for `on_safe`."""
        return self._version, self.plan.batches if self.plan is not None else ()

    def on_safe(self, told: Told) -> None:
        """That commit is done."""
        version, batches = told
        if version == self._version and self.plan is not None:
            self._safe.update(set(batches).intersection(self.plan.batches))

    @property
    def is_safe(self) -> bool:
        """A commit of ours has told of all of it."""
        return self.plan is None or self._safe.issuperset(self.plan.batches)

    def safe_end(self, offset: int | None) -> int | None:
        """Where the batch ends that the record at `offset` is in, if it may be handed out at once."""
        if self.plan is None or self.plan.session or offset is None:
            return None
        batch = self.plan.batch_at(offset)
        return batch[1] if batch in self._safe else None

    # ---- what becomes of it

    def on_taken(self, first: int | None) -> None:
        """A batch from `first` on is handed out: nothing is left of those before it."""
        self._is_only_named = self._has_died = False
        if first is not None:
            self._keep_above(first)
        self._is_in_flight = self.plan is not None and first is not None and self.plan.first <= first

    def on_outcome(self, *, is_kept: bool) -> None:
        """All that was in flight has its outcome. A kept plan names no session: nothing runs there."""
        if self._is_in_flight and self.plan is not None:
            if not is_kept:
                self._drop_first()
                self._is_in_flight = False
            elif self.plan.session:
                self.plan = replace(self.plan, session="")
        self._deaths = 0

    def drop_started(self) -> None:
        """What was in flight need not come again as it was. Those that lie further on stay."""
        if self._is_in_flight and self.plan is not None:
            self._version += 1
            self._drop_first()
        self._is_in_flight = False
        self._deaths = 0  # whatever is planned next has its own

    def drop_at(self, offset: int) -> None:
        """The record there is never delivered."""
        if self.plan is not None and (batch := self.plan.batch_at(offset)) is not None:
            self._version += 1
            self._safe.discard(batch)
            self.plan = PlannedBatches.of(
                tuple(it for it in self.plan.batches if it != batch), self.plan.session
            )

    def on_died(self) -> None:
        """The worker did that has what is in flight."""
        self._has_died = True

    def on_failed(self, failed: Sequence[Span]) -> None:
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
        before = self.plan
        self._keep_above(offset)
        if self.plan is not before:
            self._is_in_flight = False  # it was acked in its handler, whose outcome is still to come

    def on_revoked(self) -> None:
        """Nothing of what is only named runs in that session, and others may.

        Batches that nobody has begun need not come as they were planned.
        """
        if self.plan is None:
            return
        begun = [it for it in self.plan.batches if it[0] < self._told_end]
        if self._is_in_flight and not begun:
            begun = [self.plan.batches[0]]
        self.plan = PlannedBatches.of(tuple(begun), "" if self._is_only_named else self.plan.session)

    def _drop_first(self) -> None:
        """It was in flight. Those behind it have not run in its session."""
        if self.plan is not None:
            self._keep_above(self.plan.end)
        if self.plan is not None and self.plan.session:
            self.plan = replace(self.plan, session="")

    def _keep_above(self, offset: int) -> None:
        if self.plan is not None and self.plan.end <= offset:
            self._safe.difference_update(it for it in self.plan.batches if it[1] <= offset)
            self.plan = self.plan.above(offset)
