"""What the simulated handlers do, and the machines that they run on: drawn anew for each call."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from checks import Call, History
from fake_worker import FakeProcess
from group import Group
from shape import Shape

from headrace.runtime.config.delivery_policy import AckMode
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.worker.api.producing import PendingMessage, ProduceError
from headrace.runtime.worker.api.sdk import QualifiedOffset, Response


class HandlerError(Exception):
    """The handler fails."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An ack that somebody has still to say. `holder`: with it, it is forgotten; None where it is stored."""

    key: PartitionKey
    """Of its log."""
    first: int
    offset: int
    holder: FakeProcess | None
    named: Any
    """What is acked: an event, what was made of it, or what somebody has made up."""


class Handlers:
    """Keeps Machine. Once `is_calm`, only what is poisoned fails."""

    def __init__(self, shape: Shape, group: Group, history: History, rng: random.Random) -> None:
        self.is_async = shape.is_async
        self.is_calm = False
        self.owed: list[Owed] = []
        self._messages = count()
        self._shape, self._group, self._history, self._rng = shape, group, history, rng

    # ---- the machine

    def latency(self) -> float:
        return self._rng.choice([0.0, self._rng.uniform(0, 0.0005), self._rng.uniform(0, 0.01)])

    def load_seconds(self) -> float:
        return self._rng.uniform(0.01, 0.2)

    def cut(self, size: int) -> int:
        return size if self._rng.random() < 0.8 else self._rng.randrange(size)

    def dies_before_saying(self, process: FakeProcess) -> bool:
        return process.is_loaded and not self.is_calm and self._rng.random() < self._shape.rates.dies / 4

    def on_death(self, process: FakeProcess) -> None:
        slot = process.worker._slot if hasattr(process, "worker") else process.slot
        unsaid = process.worker.unsaid() if hasattr(process, "worker") else None
        self._history.on_death(process, is_in_a_record=slot.read().is_running, unsaid=unsaid)

    # ---- the handler

    async def call(self, process: FakeProcess, context: Any, given: Any) -> Any:
        """One event, or a batch of them."""
        events = given if isinstance(given, list) else [given]
        call = self._history.on_start(process, events, is_lease_over=process._lease.is_over)
        call.seq = process.worker.current_seq()
        try:
            return await self._handle(process, call, events, is_batch=isinstance(given, list))
        except BaseException:
            self._history.on_end(call, ["failed"] * len(events))
            raise

    async def _handle(
        self, process: FakeProcess, call: Call, events: Sequence[Any], *, is_batch: bool
    ) -> Any:
        if self._shape.policy.ack_mode.is_explicit:
            await self._ack_others(process, events[-1])
        if (seconds := self._seconds()) > 0:
            await asyncio.sleep(seconds)
        self._die_or_fail(process, events)
        for event in events:
            await self._produce(process, call, event)
        returns = [await self._outcome(process, event) for event in events]
        if self._is(self._shape.rates.dies / 2):
            process.end()
        responses = [self._response(event, it) for event, it in zip(events, returns, strict=True)]
        self._history.on_end(call, returns)
        if is_batch:
            return None if set(returns) == {"ok"} else [it for it in responses if it is not None]
        return responses[0]

    async def _produce(self, process: FakeProcess, call: Call, event: Any) -> None:
        """Some, each of its own; some of them are refused, and some are waited for."""
        key = self._log_of(event)
        is_oversized = (key, event.first_offset) in self._group.oversized
        for _ in range(1 if is_oversized else self._rng.choice([0, 0, 0, 1, 3])):
            value = f"{next(self._messages)}".encode()
            if is_oversized or self._is(self._shape.rates.refuses):
                self._group.too_large.add(value)
            self._history.on_message(call, key, event.first_offset, value)
            message = process.worker._context.produce("out", value)
            if not self._shape.policy.exactly_once and self._rng.random() < 0.15:
                await self._wait_for(message)

    async def _wait_for(self, message: PendingMessage) -> None:
        """Whatever the handler makes of it: its record has failed."""
        try:
            await message
        except ProduceError:
            if self._rng.random() < 0.5:
                raise

    def _seconds(self) -> float:
        rng = self._rng
        if self._is(self._shape.rates.is_slow):
            return rng.uniform(0.05, 0.8)
        return 0.0 if rng.random() < 0.6 else rng.uniform(0, 0.005)

    def _die_or_fail(self, process: FakeProcess, events: Sequence[Any]) -> None:
        if self._is(self._shape.rates.dies):
            process.end(self._rng.choice([-9, -11, 1]))
        if self._is(self._shape.rates.fails) or any(map(self._is_poisoned, events)):
            if self._is(self._shape.rates.dies * 5):
                process.end()
            raise HandlerError

    def _is_poisoned(self, event: Any) -> bool:
        key = self._log_of(event)
        spanned = self._history.offsets(key, event.first_offset, event.offset + 1)
        return any((key, offset) in self._group.poison for offset in spanned)

    def _log_of(self, event: Any) -> PartitionKey:
        return self._history.deliveries[event._partition.lane_id].key

    def _is(self, likelihood: float) -> bool:
        return not self.is_calm and self._rng.random() < likelihood

    async def _outcome(self, process: FakeProcess, event: Any) -> str:
        """Acks of it included; `failed` here is by a response."""
        if self._is(self._shape.rates.fails / 2):
            return "failed"
        mode = self._shape.policy.ack_mode
        if mode is AckMode.DISABLE:
            return "ok"
        if self._is(self._shape.rates.nacks):
            await self._nack_somehow(process, event)
        if mode is AckMode.ENABLE and (self.is_calm or self._rng.random() < 0.6):
            return "ok"
        await self._ack_somehow(process, event)
        return "ok" if mode is AckMode.EXPLICIT_ONLY else "unacked"

    def _response(self, event: Any, outcome: str) -> Response | None:
        if outcome == "failed" and self._rng.random() < 0.3 and self._shape.policy.batch:
            return None  # none with its id
        response = Response(status_code=500 if outcome == "failed" else 200, event_id=event.id)
        if outcome == "unacked":
            response.ensure_no_ack()
        return response

    # ---- nacks

    async def _nack_somehow(self, process: FakeProcess, event: Any) -> None:
        """In the handler, or after it."""
        if self._rng.random() < 0.5:
            await self._nack(process, event)
        else:
            process.run(self._nack_late(process, event))

    async def _nack_late(self, process: FakeProcess, event: Any) -> None:
        await asyncio.sleep(self._rng.choice([0.0, self._rng.uniform(0, 0.5)]))
        if not self.is_calm:
            await self._nack(process, event)

    async def _nack(self, process: FakeProcess, event: Any) -> None:
        delivery = self._history.deliveries[event._partition.lane_id]
        if await process.worker.platform.explicit_nack(event, "the simulation says so"):
            self._history.on_nack(process, delivery, range(event.first_offset, event.offset + 1))

    # ---- acks

    async def _ack_somehow(self, process: FakeProcess, event: Any) -> None:
        holder = self._rng.choice([process, None])
        named = event if self._rng.random() < 0.3 else QualifiedOffset.from_event(event)
        owed = Owed(self._log_of(event), event.first_offset, event.offset, holder, named)
        when = 0.0 if self.is_calm else self._rng.random()
        if when < (0.3 if self._shape.is_made_anew else 0.5):
            await self.ack(process, owed, is_through=self._is(0.1))
            return
        self.owed.append(owed)
        if when < 0.8:
            process.run(self._ack_late(process, owed))

    async def _ack_late(self, process: FakeProcess, owed: Owed) -> None:
        most_seconds = 2.0 if self._shape.is_made_anew else 0.5
        await asyncio.sleep(self._rng.choice([0.0, self._rng.uniform(0, most_seconds)]))
        await self.ack(process, owed)

    async def _ack_others(self, process: FakeProcess, event: Any) -> None:
        """What was stored, by whoever; twice; or before it has come."""
        if self._is(0.1) and self.owed:
            owed = self._rng.choice(self.owed)
            if owed.holder in {None, process}:
                await self.ack(process, owed)
        if self._shape.delivery == "ranges" or self._shape.is_made_anew:
            return  # what is made up by name is of whichever topic
        if self._is(0.05):
            key, offset = self._log_of(event), event.offset + self._rng.randint(1, 4)
            await self.ack(process, _made_up(key, offset))
        if self._is(0.03):
            key = self._rng.choice(self._group.keys)
            offset = self._rng.randint(0, self._group.end_of(key) + 1)
            await self.ack(process, _made_up(key, offset), is_through=self._rng.random() < 0.2)

    async def ack(self, process: FakeProcess, owed: Owed, *, is_through: bool = False) -> None:
        """From this process; what is on its way counts."""
        platform = process.worker.platform
        explicit_ack = platform.explicit_ack_through if is_through else platform.explicit_ack
        try:
            is_sent = await explicit_ack(owed.named)
        except ValueError:  # inside a range that is open
            return
        if is_sent:
            owner = self._history.owner(owed.key)
            end = owner.holder.end_of(owed.key._replace(topic="t")) if owner is not None else 0
            self._history.on_ack(process, owed.key, owed.first, owed.offset, end, is_through=is_through)
            self.owed = [it for it in self.owed if it is not owed]


def _made_up(key: PartitionKey, offset: int) -> Owed:
    return Owed(key, offset, offset, None, QualifiedOffset(*key, offset))
