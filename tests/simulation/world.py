"""Replicas in a group, and what goes wrong with them; then peace, in which all must be settled."""

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

from checks import History, ViolationError
from fake_worker import DeadError
from group import Group
from handlers import Handlers
from late_commits import LateCommits, may_be_late
from member import SESSION_SECONDS, WAIT_SECONDS, Member
from shape import Shape, draw
from standing import Standing, is_named, without_reason
from virtual_time import StandstillError, in_virtual_time

from headrace.runtime.partitions import lane
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.partitions.status import is_stuck_in_a_record, stuck_at

_LOOK_SECONDS = 0.1
_SECOND_LOOK_SECONDS = 0.005
_CALM_SECONDS = 120.0
_SKIPPED = "%s offset %d is skipped: "  # what is lost is told


class World:
    """All of it comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        random.seed(seed)  # the product's jitter
        self.shape: Shape = draw(rng)
        shape = self.shape
        self.loop = asyncio.get_running_loop()
        self.group = Group(
            rng,
            shape.partitions,
            are_chunks=shape.delivery == "chunks",
            max_text_chars=shape.max_text_chars,
        )
        self.history = History(shape.policy, self.group.produced, self.loop.time)
        self.history.is_text_whole = shape.max_text_chars > 1000
        self.group.history = self.history
        self.handlers = Handlers(shape, self.group, self.history, rng)
        self.replicas = [
            Member(shape, self.group, self.history, self.handlers, rng) for _ in range(shape.replicas)
        ]
        if may_be_late(seed):
            late = LateCommits(self.group, seed)
            for it in self.replicas:
                it.late = late
        self._idle_since: dict[tuple[int, int | None], float] = {}
        self._standing_since: dict[Standing, float] = {}
        self.loop.set_exception_handler(self._on_error)

    async def run(self) -> None:
        """Raises where a promise is broken."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(it.run()) for it in self.replicas]
            running.append(tasks.create_task(self._look_forever()))
            producing = tasks.create_task(self._produce_forever())
            await asyncio.gather(*(it.is_up.wait() for it in self.replicas))
            await self._make_trouble()
            producing.cancel()
            await self._settle()
            await asyncio.gather(*(it.give_back(WAIT_SECONDS) for it in self.replicas))
            for it in running:
                it.cancel()
        await asyncio.gather(*(it.dispatcher.stop(1.0) for it in self.replicas))
        self._check_violations()

    def end(self) -> None:
        """Nobody waits for what is left."""
        for it in self.replicas:
            for process in it.processes.values():
                process.die()

    # ---- what goes wrong

    async def _make_trouble(self) -> None:
        end = self.loop.time() + self.shape.seconds
        troubles = [
            self._rebalance_some,
            self._move,
            self._lose_one,
            self._kill,
            self._kill,
            self._act,
            self._trouble_broker,
        ]
        await self._rebalance(self.replicas)
        if self.shape.is_made_anew:
            troubles += [self._make_topic_anew, self._make_topic_anew]
        while self.loop.time() < end:
            pause_seconds = self.rng.uniform(0, self.shape.pause_seconds)
            await asyncio.sleep(min(pause_seconds, end - self.loop.time()))
            if self.loop.time() >= end:
                return
            await self.rng.choice(troubles)()

    async def _rebalance_some(self) -> None:
        await self._rebalance(self.rng.sample(self.replicas, self.rng.randint(1, len(self.replicas))))

    async def _rebalance(self, members: Sequence[Member]) -> None:
        """All give back all they have."""
        await asyncio.gather(
            *(
                it.give_back(WAIT_SECONDS)
                for it in self.replicas
                if it.generation is not None and not it.is_cut_off
            )
        )
        self.group.generation += 1
        self.group.epoch += 1
        given: dict[Member, list[PartitionKey]] = {it: [] for it in members}
        for key in self.group.keys:
            given[self.rng.choice(members)].append(key)
        for it in self.replicas:
            if not it.is_cut_off:
                it.generation = self.group.generation if it in given else None
        for it, keys in given.items():
            it.on_assigned(keys)

    async def _move(self) -> None:
        """Some partitions, while the others go on."""
        members = [it for it in self.replicas if it.generation is not None]
        giver, taker = self.rng.choice(members), self.rng.choice(members)
        if keys := [key for key in giver.assignment.partitions if self.rng.random() < 0.5]:
            await giver.give_back(WAIT_SECONDS, keys)
            self.group.epoch += 1
            taker.on_assigned(keys)

    async def _lose_one(self) -> None:
        """The broker hears nothing of a replica for a session; that may hear of it at once, or late."""
        lost = self.rng.choice(self.replicas)
        if lost.generation is None:
            return
        lost.is_cut_off = True
        is_told = self.rng.random() < 0.5
        if is_told:
            lost.generation = None
            await lost.give_back(0)
        await asyncio.sleep(SESSION_SECONDS + 0.2)
        lost.on_session_end()
        if others := [it for it in self.replicas if it is not lost]:
            await self._rebalance(others)
        else:
            self.group.generation += 1
        if not is_told:
            await asyncio.sleep(self.rng.uniform(0, 0.5))
            lost.generation = None
            await lost.give_back(0)
        lost.is_cut_off = False
        await self._rebalance(self.replicas)

    async def _kill(self) -> None:
        """One worker, whatever it is doing."""
        if self.shape.rates.dies:
            processes = self.rng.choice(self.replicas).processes
            processes[self.rng.randrange(self.shape.workers)].die()

    async def _act(self) -> None:
        """Somebody's hand."""
        for it in self.replicas:
            for partition in list(it.assignment.partitions.values()):
                if is_stuck_in_a_record(partition) and self.rng.random() < 0.5:
                    offset, log = stuck_at(partition), self.history.deliveries[partition.lane.id].key
                    if self.rng.random() < 0.5:
                        self.history.retried.add((log, offset))
                        it.dispatcher.act("retry", partition)
                    else:
                        self.history.given_up[log].add(offset)
                        it.dispatcher.act("skip", partition)

    async def _make_topic_anew(self) -> None:
        """Soon it holds as many records as before."""
        ends = {key: self.group.end_of(key) for key in self.group.keys}
        self.group.make_anew()
        await asyncio.sleep(self.rng.choice([0.0, 0.2]))
        for key, end in ends.items():
            if end:
                self.group.produce(key, self.rng.randint(1, min(end, 60)))

    async def _trouble_broker(self) -> None:
        it = self.rng.choice(self.replicas)
        it.trouble = self.rng.choice([0.0, 0.3, 0.9])

    async def _produce_forever(self) -> None:
        while True:
            key = self.rng.choice(self.group.keys)
            if self.rng.random() < 0.1:
                self.group.end_a_transaction(key)
            else:
                is_poisoned = bool(self.shape.rates.fails) and self.rng.random() < 0.05
                is_oversized = bool(self.shape.rates.refuses) and self.rng.random() < 0.05
                count = self.rng.randint(1, 12) if self.rng.random() < 0.85 else self.rng.randint(20, 60)
                self.group.produce(key, count, is_poisoned=is_poisoned, is_oversized=is_oversized)
            await asyncio.sleep(self.rng.uniform(0, 0.3))

    # ---- peace

    async def _settle(self) -> None:
        """Everything is committed in the end, but for what is open by rule."""
        self.handlers.is_calm = True
        if not self.shape.policy.failure.max_attempts:
            self.group.poison.clear()
            self.group.oversized.clear()
        for it in self.replicas:
            it.trouble = 0.0
        if self.rng.random() < 0.2:
            await self._rebalance(self.replicas)
        try:
            async with asyncio.timeout(_CALM_SECONDS):
                while not self._is_settled():
                    await asyncio.sleep(0.2)
                    await self._say_what_is_owed()
        except TimeoutError:
            seen = [it for replica in self.replicas for it in replica.assignment.statuses()]
            self.history.violate(f"stands still: {self._open()}; to be seen is {seen}")
        self._check_named()

    async def _say_what_is_owed(self) -> None:
        for owed in list(self.handlers.owed):
            owner = self.history.owner(owed.key)
            if owed.key not in map(self.group.log, self.group.keys):  # its topic is gone
                owner = self.history.owner(self.group.log(owed.key._replace(topic="t")))
                self.handlers.owed.remove(owed)
            if owner is None:
                continue
            speaker = owed.holder
            if speaker is None:
                speaker = next(
                    (it for it in owner.holder.processes.values() if it.is_loaded and not it.is_dead), None
                )
            if speaker is not None and not speaker.is_dead:  # else the record comes again
                await self.handlers.ack(speaker, owed)

    def _is_settled(self) -> bool:
        return not self._open()

    def _open(self) -> dict[PartitionKey, list[int]]:
        found = {key: self._unexcused(key) for key in self.group.keys}
        return {key: offsets for key, offsets in found.items() if offsets}

    def _unexcused(self, key: PartitionKey) -> list[int]:
        """What isn't committed, below the record at which the partition has halted by rule."""
        log = self.group.log(key)
        offsets, partition = self.history.uncommitted(log), self._partition(key)
        if partition is not None and self.shape.policy.ordering != "partition":
            halted = self._halted_lanes(partition)
            held = {record.offset for lane in halted for record in lane.buffer}
            is_full = (
                bool(held) and len(held) >= partition.limit.waiting
            )  # then nothing more is fetched, by rule
            offsets = [] if is_full else [it for it in offsets if it not in held]
        elif partition is not None and self._has_halted_by_rule(partition):
            offsets = [it for it in offsets if it < stuck_at(partition) and not self._is_orphan(log, it)]
        window = self.shape.policy.ack_window_size
        if len(offsets) <= window or (
            window and not self.history.is_text_whole
        ):  # or no place to say of more
            offsets = [offset for offset in offsets if not self.history.is_finished(log, offset)]
        return offsets

    def _is_orphan(self, key: PartitionKey, offset: int) -> bool:
        """Whoever was to ack it is dead, or it has failed since; it comes once its partition isn't halted."""
        if self.history.taken_back.has(key, offset):
            return True
        owner = self.history.owner(key)
        handler = owner.handled.get(offset) if owner is not None else None
        return handler is not None and handler.is_dead

    def _has_halted_by_rule(self, partition: AssignedPartition) -> bool:
        failure, log = self.shape.policy.failure, self.group.log(partition.key)
        is_halted = partition.lane.state is PartitionState.HALTED
        return (
            is_halted
            and failure.then == "halt"
            and failure.is_spent(self.history.failures_of(log, stuck_at(partition)))
        )

    def _halted_lanes(self, partition: AssignedPartition) -> list[Any]:
        """Of keys whose next record has failed for good."""
        failure, failures = self.shape.policy.failure, self.history.failures
        log = self.group.log(partition.key)
        if failure.then != "halt":
            return []
        halted = [it for it in partition.lane.parts if it.state is PartitionState.HALTED]
        return [it for it in halted if failure.is_spent(failures[log, it.next_offset or 0])]

    def _partition(self, key: PartitionKey) -> AssignedPartition | None:
        return next(
            (it.assignment.partitions[key] for it in self.replicas if key in it.assignment.partitions), None
        )

    # ---- what always holds

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._check_violations()
            self._check_idle()
            self._check_standing()
            await asyncio.sleep(_SECOND_LOOK_SECONDS)
            self._check_idle()

    def _check_idle(self) -> None:
        now = self.loop.time()
        batch = self.shape.policy.batch
        patience = _SECOND_LOOK_SECONDS / 2 if batch is None else batch.timeout_seconds + 2
        found = {it for replica in self.replicas for it in replica.idle_and_open()}
        self._idle_since = {it: self._idle_since.get(it, now) for it in found}
        for it, since in self._idle_since.items():
            if now - since > patience:
                self.history.violate(f"lane {it[0]} waits at offset {it[1]} while a worker idles")

    def _check_standing(self) -> None:
        now = self.loop.time()
        found = {it for replica in self.replicas for it in without_reason(replica.dispatcher)}
        self._standing_since = {it: self._standing_since.get(it, now) for it in found}
        for (lane_id, what), since in self._standing_since.items():
            if now - since > 2 * _LOOK_SECONDS:
                key = self.history.deliveries[lane_id].key if lane_id in self.history.deliveries else lane_id
                self.history.violate(f"{key} stands without a reason: {what}")

    def _check_named(self) -> None:
        """What isn't committed in the end: people see why."""
        for replica in self.replicas:
            for status in replica.assignment.statuses():
                key = self.group.log(PartitionKey(status.topic, status.partition))
                left = [it for it in self.history.uncommitted(key) if not self.history.is_finished(key, it)]
                if left and not is_named(status):
                    self.history.violate(f"{key} isn't committed, and its status names no reason: {status}")

    def _check_violations(self) -> None:
        if self.history.violations:
            raise ViolationError(self.history.violations[0])

    def _on_error(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if not isinstance(error, ViolationError | DeadError):
            self.history.violations.append(f"{self.loop.time():.3f} s: {context['message']}: {error!r}")


class _OwnErrors(logging.Handler):
    """What the product logs with a traceback, or calls its own bug, is one."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith(_SKIPPED):
            partition, offset, *_ = cast("tuple[AssignedPartition, int]", record.args)
            self._history.on_given_up(partition.lane.id, offset, "skip")
        if record.exc_info or "bug of Headrace" in record.msg:
            why = record.exc_info[1] if record.exc_info else ""
            self._history.violations.append(f"{record.getMessage()}: {why!r}")


@contextmanager
def _listening(history: History) -> Iterator[None]:
    """To the product's errors; nothing else is logged."""
    loggers = [logging.getLogger(name) for name in ("headrace", "asyncio")]
    kept = [(it.level, it.propagate) for it in loggers]
    handler = _OwnErrors(history)
    for it in loggers:
        it.addHandler(handler)
        it.setLevel(logging.ERROR)
        it.propagate = False
    try:
        yield
    finally:
        for it, (level, propagate) in zip(loggers, kept, strict=True):
            it.removeHandler(handler)
            it.setLevel(level)
            it.propagate = propagate


async def _run(seed: int, worlds: list[World]) -> None:
    world = World(seed)
    worlds.append(world)
    with _listening(world.history):
        try:
            await world.run()
        except BaseExceptionGroup as group:
            if not world.history.violations:
                world.history.violations.append(repr(group.exceptions))
        finally:
            world.end()


def simulate(seed: int) -> History:
    """Always the same for a seed; its `violations` say which promises were broken."""
    lane._ids = count()  # they are on the wire, and a wire is cut by how much is on it
    worlds: list[World] = []
    try:
        in_virtual_time(lambda: _run(seed, worlds))
    except (StandstillError, AssertionError) as error:
        worlds[0].history.violations.append(repr(error))
    return worlds[0].history
