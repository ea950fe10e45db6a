"""The batch plan of a partition: which offsets come again as they were, and which a commit has told of."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.runtime.partitions.offsets.checkpoint import MOST_PLANNED, PlannedBatches
from headrace.runtime.partitions.offsets.interval_set import Span

Told = tuple[int, tuple[Span, ...]]
"""The part of the plan that a commit tells of, noted when it begins: its version, and its batches."""


class BatchPlan:
    """The planned batches of a partition, from the lowest open one up, and how far each of them has got.

    `planned` is what a commit says. A batch is safe, and may be handed out, once a commit of ours has told of
    it: otherwise nobody could repeat the same batch after a crash.
    """

    __slots__ = (
        "_deaths",
        "_has_died",
        "_is_in_flight",
        "_is_only_named",
        "_safe",
        "_told_end",
        "_version",
        "planned",
    )

    def __init__(self, planned: PlannedBatches | None) -> None:
        self.planned = planned
        self._is_in_flight = False  # whether the first batch is in flight
        self._is_only_named = False  # the plan names a Spark session of ours; nothing of it runs there yet
        self._has_died = False  # whether the worker has died that the batch in flight was at
        self._deaths = 0  # deaths in the first batch that may have made suspects of its records
        self._safe: set[Span] = set()  # the batches of which a commit of ours has told
        # An earlier owner may have begun the batches below.
        self._told_end = 0 if planned is None else planned.last_end
        self._version = 0  # rises when a batch is dropped without an outcome

    def of(self, offset: int | None) -> PlannedBatches | None:
        """Return the batch that the record at `offset` belongs to, by itself."""
        planned = self.planned
        if planned is None or offset is None or (batch := planned.batch_at(offset)) is None:
            return None
        return PlannedBatches(*batch, planned.session)

    def missing_from(self, position: int, next_offset: int | None) -> int:
        """Return how many offsets are still to be fetched of the batch that goes next.

        `position` is the next offset to fetch, `next_offset` the lowest that waits; None if none does.
        """
        batch = self.of(position if next_offset is None else next_offset)
        return 0 if batch is None else max(batch.end - position, 0)

    # ---- before it is handed out

    def propose(self, part: PlannedBatches) -> None:
        """Plan the batch `part`, which is to be handed out: nothing is left of the batches before it.

        Batches that lie further on stay planned. A commit names one session: if the plan further on has one,
        commits tell of that, and not of `part`.
        """
        self._keep_above(part.first)
        if (planned := self.planned) is None:
            self.planned = part
        elif part.end <= planned.first and not planned.session:
            self.planned = replace(part, behind=planned.batches)

    def extend(self, batches: Sequence[Span]) -> None:
        """Plan these batches too, after all others, as far as a commit has place for them."""
        planned = () if self.planned is None else tuple(it for it in self.planned.batches if it[0] < it[1])
        session = self.planned.session if self.planned is not None else ""
        self.planned = PlannedBatches.of((*planned, *batches)[:MOST_PLANNED], session)

    def name_session(self, offset: int | None, session: str) -> None:
        """Note that the planned record at `offset` will run in this Spark session."""
        if self.planned is not None and self.of(offset) is not None:
            self.planned = replace(self.planned, session=session)
            self._is_only_named = True

    def told(self) -> Told:
        """Return what a commit tells that is about to begin, to be given to `on_safe` when it is done."""
        return self._version, self.planned.batches if self.planned is not None else ()

    def on_safe(self, told: Told) -> None:
        """Note that a commit is done: the batches of which it has told are safe."""
        version, batches = told
        # In another version a batch was dropped since, and one with the same boundaries is a new one.
        if version == self._version and self.planned is not None:
            self._safe.update(set(batches).intersection(self.planned.batches))

    @property
    def is_safe(self) -> bool:
        """Whether a commit of ours has told of the whole plan."""
        return self.planned is None or self._safe.issuperset(self.planned.batches)

    def safe_end(self, offset: int | None) -> int | None:
        """Return where the batch of the record at `offset` ends; None unless that batch is safe to send."""
        if self.planned is None or self.planned.session or offset is None:
            return None
        batch = self.planned.batch_at(offset)
        return batch[1] if batch in self._safe else None

    # ---- what becomes of it

    def on_taken(self, first: int | None) -> None:
        """Note that a batch from `first` on is handed out: nothing is left of the batches before it."""
        self._is_only_named = self._has_died = False
        if first is not None:
            self._keep_above(first)
        self._is_in_flight = self.planned is not None and first is not None and self.planned.first <= first

    def on_outcome(self, *, is_kept: bool) -> None:
        """Drop the batch whose records all have an outcome, unless it `is_kept` until it is acked.

        A plan that is kept names no session: nothing runs there any more.
        """
        if self._is_in_flight and self.planned is not None:
            if not is_kept:
                self._drop_first()
                self._is_in_flight = False
            elif self.planned.session:
                self.planned = replace(self.planned, session="")
        self._deaths = 0

    def drop_started(self) -> None:
        """Drop the batch in flight, which need not come again as it was. Those that lie further on stay."""
        if self._is_in_flight and self.planned is not None:
            self._version += 1
            self._drop_first()
        self._is_in_flight = False
        self._deaths = 0  # whatever is planned next has its own

    def drop_at(self, offset: int) -> None:
        """Drop the batch of the record at `offset`, which is never delivered."""
        if self.planned is not None and (batch := self.planned.batch_at(offset)) is not None:
            self._version += 1
            self._safe.discard(batch)
            left = tuple(it for it in self.planned.batches if it != batch)
            self.planned = PlannedBatches.of(left, self.planned.session)

    def on_died(self) -> None:
        """Note that the worker has died that the batch in flight was at."""
        self._has_died = True

    def on_failed(self, failed: Sequence[Span]) -> None:
        """Note that these offsets `[first, end)` of the batch in flight failed.

        A batch of one record that a worker died in stays planned: it has failed, and comes again as it was.
        """
        planned = self.planned
        is_all = planned is not None and list(failed) == [(planned.first, planned.end)]
        if not (self._has_died and is_all):
            self.drop_started()

    def may_repeat_after_death(self) -> bool:
        """Return whether the batch that a worker died in goes once more as it was.

        Only the same batch can replace what the dead worker may have written of it.
        """
        self._deaths += 1
        return self.planned is not None and self._deaths == 1

    def on_settled_below(self, offset: int) -> None:
        """Drop batches that lie below `offset`: nobody has to repeat them."""
        before = self.planned
        self._keep_above(offset)
        if self.planned is not before:
            self._is_in_flight = False  # it was acked in its handler, whose outcome is still to come

    def on_revoked(self) -> None:
        """Keep what the next owner has to know.

        Batches that nobody has begun need not come as they were planned. A session that was only named is
        left out: nothing of this partition runs there, but batches of others may.
        """
        if self.planned is None:
            return
        begun = [it for it in self.planned.batches if it[0] < self._told_end]
        if self._is_in_flight and not begun:
            begun = [self.planned.batches[0]]
        self.planned = PlannedBatches.of(tuple(begun), "" if self._is_only_named else self.planned.session)

    def _drop_first(self) -> None:
        """Drop the batch that was in flight. Those behind it have not run in its session."""
        if self.planned is not None:
            self._keep_above(self.planned.end)
        if self.planned is not None and self.planned.session:
            self.planned = replace(self.planned, session="")

    def _keep_above(self, offset: int) -> None:
        if self.planned is not None and self.planned.end <= offset:
            self._safe.difference_update(it for it in self.planned.batches if it[1] <= offset)
            self.planned = self.planned.above(offset)
