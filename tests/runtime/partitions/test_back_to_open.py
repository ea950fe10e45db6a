"""Whatever brings a record back to open, no commit passes it, and it is delivered again.

The table is in docs/design/back-to-open.md.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from worker_bench import records

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.awaiting_ack import NOBODY
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.pending_produces import HandlerCall, PendingRecord
from headrace.runtime.partitions.partition import of_records
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.wire.records import WireRecord

END = 6
SEEDS = 1000


@dataclass
class Truth:
    """What is so of one record, whatever the partition has written down."""

    is_settled: bool = False
    is_failing: bool = False
    """It has failed, and was not handled again since."""
    is_nacked: bool = False
    """The delivery that its handler is in has failed, whatever the handler returns."""
    is_unwritten: bool = False
    """A message of its last delivery was refused, and none has gone well since."""
    runs_again: bool = False
    """It is so, and the handler is in it again."""
    is_acked: bool = False
    """While it was so, in its handler again: that counts once the handler has returned."""
    call: HandlerCall | None = None
    """What its last delivery has produced, until that is confirmed or refused."""


class World:
    """One partition in order, two workers, and what their dispatcher would do with it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_explicit = self.random.random() < 0.7
        self.window = 0 if self.is_explicit else self.random.choice([0, 3])
        self.truths = [Truth() for _ in range(END)]
        self.assign(Checkpoint(0))

    def assign(self, start: Checkpoint) -> None:
        self.p = of_records(PartitionKey("t", 0), start, 256, self.window)
        self.out: list[WireRecord] = []
        self.due: set[int] = set()

    # ---- what happens

    def steps(self) -> Iterator[Callable[[], None]]:
        """What may happen next, each as often as its weight."""
        if self.p.ledger.position < END:
            yield self.fetch
        if self.p.lane.is_deliverable and not self.out:
            yield from 2 * [self.hand_out]
        if self.out:
            yield from 3 * [self.finish]
        if self.here:
            yield self.produce
            if self.is_explicit:
                yield from (self.nack, self.ack, self.ack_through)
        if self.is_explicit:
            yield self.ack_any
        yield from self.later_steps()

    def later_steps(self) -> Iterator[Callable[[], None]]:
        if self.p.pending:
            yield from 2 * [self.answer]
        if self.due:
            yield self.time_passes
        if self.out or self.p.awaiting_ack:
            yield self.die
        if self.random.random() < 0.1:
            yield self.move

    def fetch(self) -> None:
        first = self.p.ledger.position
        self.p.on_fetched(records(first, min(self.random.randint(2, END), END - first)))

    def hand_out(self, *, is_calm: bool = False) -> None:
        lane = self.p.lane
        self.out = list(lane.take(self.random.randint(1, 4), 1 << 20))
        lane.on_sent(self.random.randint(0, 1))
        produces = not is_calm and self.random.random() < 0.5
        for record in self.out:
            truth = self.truths[record.offset]
            assert not truth.is_settled, "what is settled is not delivered again"
            truth.is_unwritten |= truth.call is not None  # nobody knows: as if it was
            truth.is_nacked, truth.runs_again, truth.call = False, truth.is_unwritten, None
            if produces:
                self.hold(record.offset)

    def finish(self, *, is_calm: bool = False) -> None:
        """The first record of the run fails, or all go well."""
        lane, out, self.out = self.p.lane, self.out, []
        if not is_calm and self.random.random() < 0.3:
            lane.on_failed(out[:1], "no", 1)
            self.truths[out[0].offset].is_failing |= not self.truths[out[0].offset].is_settled
            self.come_back(out)
        else:
            for record in out:
                self.succeed(record)
        if lane.state is PartitionState.RETURNING:
            lane.become(PartitionState.BACKOFF)
            lane.become(PartitionState.ACTIVE)
        self.redeliver()

    def succeed(self, record: WireRecord) -> None:
        offset, truth = record.offset, self.truths[record.offset]
        is_nacked = truth.is_nacked
        truth.is_failing, truth.is_nacked = is_nacked and not truth.is_settled, False
        (self.p.lane.on_unacked if self.is_explicit or is_nacked else self.p.lane.on_settled)([record])
        truth.is_settled |= truth.is_acked or not (is_nacked or self.is_explicit)
        truth.is_failing &= not truth.is_settled
        truth.is_unwritten &= not (truth.runs_again or truth.is_settled)
        truth.is_acked = truth.runs_again = False
        if not is_nacked:
            return
        if self.p.nacked.pop(offset) and offset in self.p.awaiting_ack:
            self.fail(offset)

    def come_back(self, out: list[WireRecord]) -> None:
        for record in out:
            if not self.p.ledger.is_settled(record.offset):
                self.p.pending.let_go(record.offset)
            self.p.nacked.pop(record.offset, None)
            truth = self.truths[record.offset]
            truth.is_nacked = truth.runs_again = truth.is_acked = False
        self.p.lane.on_returned(out)

    def fail(self, offset: int) -> None:
        if offset not in self.due and not self.p.awaiting_ack.is_orphan(offset):
            self.p.failed.note_failure(offset, "no", 1, None)
            self.due.add(offset)

    @property
    def here(self) -> list[int]:
        """Those that a handler is in, or has been in without an ack."""
        found = {*self.p.awaiting_ack, *(record.offset for record in self.out)}
        return sorted(offset for offset in found if not self.p.ledger.is_settled(offset))

    def produce(self) -> None:
        offset = self.random.choice(self.here)
        if offset not in self.p.pending:
            self.hold(offset)

    def hold(self, offset: int) -> None:
        failed = self.p.failed.of(offset)
        call = self.truths[offset].call = HandlerCall(1)
        self.p.pending[offset] = PendingRecord(call, offset + 1, failed.failures if failed else 0)

    def answer(self) -> None:
        self.confirm(self.random.choice(sorted(self.p.pending)), is_refused=self.random.random() < 0.6)

    def confirm(self, offset: int, *, is_refused: bool) -> None:
        truth, held = self.truths[offset], self.p.pending[offset]
        assert held.call is truth.call, "it is of the last delivery"
        truth.call = None
        self.p.pending.drop(offset)
        if not is_refused:
            return
        is_out = offset in [record.offset for record in self.out]
        # Its delivery was in vain anyway.
        waits = not (truth.is_settled or is_out or offset in self.p.awaiting_ack)
        is_coming = waits or self.p.awaiting_ack.is_orphan(offset)
        truth.is_settled, truth.is_unwritten, truth.is_nacked = False, True, is_out
        truth.runs_again = truth.is_acked = False
        truth.is_failing |= not (is_coming or is_out)
        self.p.pending.reject(offset)
        is_settled = self.p.ledger.is_settled(offset)
        if is_settled:
            self.p.take_back(offset, offset + 1, held.failures)
        if offset in self.p.awaiting_ack:
            self.fail(offset)
        elif is_out:
            self.p.nacked[offset] = "refused", 1
        elif is_settled:
            self.p.awaiting_ack.add([offset], NOBODY)
            self.fail(offset)

    def nack(self) -> None:
        offset = self.random.choice(self.here)
        if offset in self.p.awaiting_ack:
            self.truths[offset].is_failing |= not self.p.awaiting_ack.is_orphan(offset)
            self.fail(offset)
        else:
            self.truths[offset].is_nacked = True
            self.p.nacked[offset] = "nacked", 1

    def ack(self) -> None:
        self.acknowledge(self.random.choice(self.here))

    def ack_any(self) -> None:
        """Somebody has kept its offset, perhaps from an earlier owner."""
        self.acknowledge(self.random.randrange(END))

    def acknowledge(self, offset: int) -> None:
        if offset not in self.p.pending.rejected:
            self.p.on_acked(offset, offset + 1)
        else:
            self.p.pending.note_acked(offset)
        self.settle(offset)

    def ack_through(self) -> None:
        offset = self.random.choice(self.here)
        self.p.ack_through(offset, offset + 1)
        for below in range(offset):
            truth = self.truths[below]
            if not (truth.is_failing or truth.is_nacked or truth.is_unwritten):
                self.settle(below)
        self.settle(offset)

    def settle(self, offset: int) -> None:
        truth = self.truths[offset]
        if not truth.is_unwritten:
            truth.is_settled, truth.is_failing = True, False
        else:
            truth.is_acked = truth.runs_again

    def time_passes(self) -> None:
        """What has failed has waited its backoff."""
        for offset in self.due:
            self.p.awaiting_ack.abandon(offset)
        self.due.clear()
        self.redeliver()

    def die(self) -> None:
        worker = self.random.randint(0, 1)
        if self.out and self.p.lane.worker_index == worker:
            out, self.out = self.out, []
            self.come_back(out)
        self.p.awaiting_ack.orphan(worker)
        self.redeliver()

    def redeliver(self) -> None:
        """Orphans, once nothing is in flight."""
        if self.p.awaiting_ack.has_orphans and not self.out:
            self.p.redeliver()
            self.due &= set(self.p.awaiting_ack)

    def move(self) -> None:
        """Another owner goes on from the commit; what is open is not known to it."""
        start = self.p.checkpoint
        told = {*range(start.offset), *(at for span in start.acked for at in range(*span))}
        for offset in range(END):
            if offset not in told:
                self.truths[offset] = Truth()
            self.truths[offset].is_failing = any(first <= offset < end for first, end, _ in start.attempts)
        self.assign(start)

    # ---- what holds

    def check(self) -> None:
        """No commit covers what is open, and the ledger knows what is settled."""
        checkpoint = self.p.checkpoint
        covered = {*range(checkpoint.offset), *(at for span in checkpoint.acked for at in range(*span))}
        for offset, truth in enumerate(self.truths):
            assert self.p.ledger.is_settled(offset) == truth.is_settled, offset
            assert offset not in covered or (truth.is_settled and truth.call is None), offset

    def calm(self) -> None:
        """All goes well from now on: all is delivered, settled and committed."""
        for _ in range(3 * END):
            if self.out:
                self.finish(is_calm=True)
            for offset in list(self.p.pending):
                self.confirm(offset, is_refused=False)
            self.time_passes()
            for offset in set(self.p.awaiting_ack) - self.due:
                self.acknowledge(offset)
            if self.p.ledger.position < END:
                self.fetch()
            if self.p.lane.is_deliverable:
                self.hand_out(is_calm=True)
            self.check()
        assert self.p.ledger.committable == END
        assert self.p.checkpoint.offset >= (0 if self.window else END)
        assert not self.p.pending.rejected
        assert not self.p.pending


@pytest.mark.parametrize("block", [0, *(pytest.param(it, marks=pytest.mark.full) for it in range(1, 8))])
def test_what_comes_back_to_open_is_passed_by_no_commit_and_comes_again(block: int) -> None:
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        world, told = World(seed), list[str]()
        try:
            for _ in range(25):
                if possible := list(world.steps()):
                    step = world.random.choice(possible)
                    told.append(step.__name__)
                    step()
                    world.check()
            world.calm()
        except AssertionError as error:
            pytest.fail(f"seed {seed}, after {' '.join(told)}: {error!r}")
