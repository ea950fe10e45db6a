"""Being a member: heartbeats into the group's state, and the shards that come of it."""

import asyncio
import logging
import secrets
import time
from collections.abc import Collection
from typing import Protocol

from headrace.runtime.v3io.client import V3ioError, V3ioRefusedError
from headrace.runtime.v3io.group_format import StateError
from headrace.runtime.v3io.group_state import GroupState, StateItem
from headrace.runtime.v3io.retry import LogThrottle, backoff_seconds
from headrace.runtime.wire.lease import now_ns
from headrace.triggers.v3io.shares import ShardAssignor, ShareDecision, V3ioMember

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Between two looks of a member that waits for shards."""
_LEAVE_SECONDS = 5.0
_REPORT_EVERY = 10
_MANY_REFUSALS = 20
_NEVER = -1
_ID_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_ID_LENGTH = 20  # as v3io-go's


class MembershipListener(Protocol):
    """Whom a membership tells what has become of it."""

    def on_renewed(self, sent_ns: int) -> None:
        """What was written then, by wire/clock.py, keeps all shards for sessionTimeout."""

    def on_gained(self, shards: Collection[int]) -> None:
        """These are its own from now on, besides those that were; none: it is a member, and stands by."""

    async def has_moved(self) -> bool:
        """Whether others may have handled records of its shards that it hasn't. Raises V3ioError."""

    async def on_lost(self) -> None:
        """All shards are somebody else's. Returns once nothing is done with them any more."""


class V3ioMembership:
    """One member of one group, on the event loop. Its owner runs it, and has it leave once that has ended."""

    def __init__(
        self,
        item: StateItem,
        group: ShardAssignor,
        function: str,
        heartbeat_seconds: float,
        owner: MembershipListener,
    ) -> None:
        self._item = item
        self._group = group
        self._function = function
        self._heartbeat_seconds = heartbeat_seconds
        self._owner = owner
        self.member = V3ioMember(_new_id(function))
        self.generation = 0
        """Of the member that it is now: it begins anew once its shards are lost."""
        self.problem = "joining the group"
        """Why it isn't renewed, where it isn't."""
        self.takes_more = True
        """Whether it goes for shards that it hasn't."""
        self._renewed_ns = _NEVER
        """When what keeps it was begun, by wire/clock.py."""
        self._may_be_in = False
        self._failures, self._waits = LogThrottle(_REPORT_EVERY), LogThrottle(_REPORT_EVERY)
        self._refusal_count = 0

    async def run_forever(self) -> None:
        """Join, and stay."""
        backoff = backoff_seconds()
        while True:
            try:
                is_done = await self._turn()
            except (V3ioError, StateError) as error:
                is_done = False
                self._report_failure(error)
            if is_done:
                self._failures.end()
                self._refusal_count = 0
                self.problem, backoff = "", backoff_seconds()
            await asyncio.sleep(self._pause_seconds if is_done else next(backoff))

    async def leave(self) -> None:
        """Remove its session, so that others have its shards at once. Bounded; doesn't raise."""
        if not self._may_be_in:
            return
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._item.remove(self.member.id)
        except (TimeoutError, V3ioError, StateError) as error:
            why = str(error) or f"no answer within {_LEAVE_SECONDS:g} s"
            logger.warning("leaving the group failed (%s): it notices by sessionTimeout", why)

    async def _turn(self) -> bool:
        """Look, and write what follows. False: once more, as another member was faster."""
        sent_ns, state = now_ns(), await self._item.read()
        verdict = self._group.decide(state.sessions, self.member, time.time_ns(), self.takes_more)
        if verdict.member is None or (self._was_removed(state) and await self._owner.has_moved()):
            await self._lose(verdict, state)
            return False
        if verdict.is_waiting:
            self.member, self._renewed_ns = verdict.member, _NEVER
            self._report_waiting()
            return True
        if verdict.member == self.member and not self._is_due:
            return True
        self._may_be_in = True
        if refused := await self._item.replace(state, verdict.sessions):
            self._report_refusal(refused)
            return False
        gained, is_first = verdict.member.shards - self.member.shards, self._renewed_ns == _NEVER
        self.member, self._renewed_ns = verdict.member, sent_ns
        self._waits.end()
        self._owner.on_renewed(sent_ns)
        if gained or is_first:
            self._owner.on_gained(sorted(gained))
        return True

    def _was_removed(self, state: GroupState) -> bool:
        """Its time was over, so whatever is free now may have had another owner meanwhile."""
        is_there = any(session.member_id == self.member.id for session in state.sessions)
        is_over = now_ns() - self._renewed_ns >= self._group.session_timeout_ns
        return bool(self.member.shards) and not is_there and is_over

    async def _lose(self, verdict: ShareDecision, state: GroupState) -> None:
        """Others have its shards, or had: go on as another member, with none."""
        own = self.member.id
        logger.error("others have shards of member %s, or had: its records are dropped, uncommitted", own)
        self.generation += 1  # first: nothing of what was may be committed
        await self._owner.on_lost()
        self.member = V3ioMember(_new_id(self._function))
        self._renewed_ns = _NEVER
        others = tuple(session for session in verdict.sessions if session.member_id != own)
        await self._item.replace(state, others)  # in vain, its old session grows stale

    @property
    def _is_due(self) -> bool:
        return self._left_seconds <= 0

    @property
    def _pause_seconds(self) -> float:
        """Until the next turn."""
        left = self._heartbeat_seconds if self._renewed_ns == _NEVER else max(0.0, self._left_seconds)
        is_looking = self.takes_more and not self._group.has_share(self.member)
        return min(left, _LOOK_SECONDS) if is_looking else left

    @property
    def _left_seconds(self) -> float:
        """Until it has to be renewed."""
        return (self._renewed_ns - now_ns()) / 1e9 + self._heartbeat_seconds

    def _report_refusal(self, refused: V3ioRefusedError) -> None:
        """Others are faster now and then, and not always."""
        self._refusal_count += 1
        if self._refusal_count >= _MANY_REFUSALS:
            self._report_failure(refused)

    def _report_failure(self, error: Exception) -> None:
        self.problem = f"the group's state can't be renewed: {error}"
        if self._failures.is_news():
            logger.warning("%s; trying again", self.problem)

    def _report_waiting(self) -> None:
        if self._waits.is_news():
            count = self._group.replica_count
            logger.info("each of the group's %d shares of shards has a member: this replica stands by", count)


def _new_id(function: str) -> str:
    return f"{function}-{''.join(secrets.choice(_ID_DIGITS) for _ in range(_ID_LENGTH))}"
