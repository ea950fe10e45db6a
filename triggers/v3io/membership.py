"""The membership of one replica in its group: heartbeats into the group's state, and the shards it gets."""

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

_POLL_SECONDS = 1.0
"""Between two heartbeats of a member that waits for shards."""
_LEAVE_SECONDS = 5.0
_REPORT_EVERY = 10
_MANY_REFUSALS = 20
_NEVER = -1
_ID_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_ID_LENGTH = 20  # as v3io-go's


class MembershipListener(Protocol):
    """The trigger that a membership tells what has become of it. Called on the event loop."""

    def on_renewed(self, sent_ns: int) -> None:
        """Keep all shards for sessionTimeout from `sent_ns` on, by the monotonic clock of wire/lease.py."""

    def on_gained(self, shards: Collection[int]) -> None:
        """Begin with these shards, beside those that it has; none: it is a member, and stands by."""

    async def are_others_further(self) -> bool:
        """Whether others may have handled records of its shards that it hasn't. Raises V3ioError."""

    async def on_lost(self) -> None:
        """Drop all shards: they are somebody else's. Returns once nothing is done with them any more."""


class V3ioMembership:
    """A member of a group, on the event loop.

    The trigger runs `run_forever`, and calls `leave` once that has ended.
    """

    def __init__(
        self,
        item: StateItem,
        assignor: ShardAssignor,
        function: str,
        heartbeat_seconds: float,
        listener: MembershipListener,
    ) -> None:
        self._item = item
        self._assignor = assignor
        self._function = function
        self._heartbeat_seconds = heartbeat_seconds
        self._listener = listener
        self.member = V3ioMember(_new_id(function))
        self.generation = 0
        """Counts the members that this has been: it goes on as another one once its shards are lost."""
        self.problem = "joining the group"
        """Why the session isn't renewed; empty while it is."""
        self.takes_more = True
        """Whether more shards are taken; False while the trigger stops."""
        self._renewed_ns = _NEVER
        """When the write that last renewed the session was begun, by wire/lease.py."""
        self._may_have_session = False
        self._failures, self._waits = LogThrottle(_REPORT_EVERY), LogThrottle(_REPORT_EVERY)
        self._refusal_count = 0

    async def run_forever(self) -> None:
        """Join the group, and renew the session until cancelled."""
        backoff = backoff_seconds()
        while True:
            try:
                is_done = await self._heartbeat()
            except (V3ioError, StateError) as error:
                is_done = False
                self._report_failure(error)
            if is_done:
                self._failures.reset()
                self._refusal_count = 0
                self.problem, backoff = "", backoff_seconds()
            await asyncio.sleep(self._pause_seconds if is_done else next(backoff))

    async def leave(self) -> None:
        """Remove the session, so that others get the shards at once. Bounded; doesn't raise."""
        # A member that only stood by has never written: there is nothing to remove.
        if not self._may_have_session:
            return
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._item.remove(self.member.id)
        except (TimeoutError, V3ioError, StateError) as error:
            why = str(error) or f"no answer within {_LEAVE_SECONDS:g} s"
            logger.warning("leaving the group failed (%s): it notices by sessionTimeout", why)

    async def _heartbeat(self) -> bool:
        """Read the group's state, and write what follows from it.

        False: to be tried again after a short pause, as another member has written meanwhile.
        """
        # The clock is read before the state: the lease may end too early, and never too late.
        sent_ns, state = now_ns(), await self._item.read()
        # By the wall clock: sessions are written by other machines, whose monotonic clocks differ.
        decision = self._assignor.decide(state.sessions, self.member, time.time_ns(), self.takes_more)
        if decision.member is None or (
            self._was_removed(state) and await self._listener.are_others_further()
        ):
            await self._lose(decision, state)
            return False
        # Each share has a member: nothing is written, so a replica that stands by costs the others nothing.
        if decision.is_waiting:
            self.member, self._renewed_ns = decision.member, _NEVER
            self._report_waiting()
            return True
        # A look between two renewals, for shards that are free: there are none, so nothing is written.
        if decision.member == self.member and not self._is_due:
            return True
        # From here on an answer may be lost and the session written all the same: `leave` has to remove it.
        self._may_have_session = True
        if refused := await self._item.replace(state, decision.sessions):
            self._report_refusal(refused)
            return False
        gained, is_first = decision.member.shards - self.member.shards, self._renewed_ns == _NEVER
        self.member, self._renewed_ns = decision.member, sent_ns
        self._waits.reset()
        # The lease first: shards are read, and workers started, under one that counts from this write.
        self._listener.on_renewed(sent_ns)
        if gained or is_first:
            self._listener.on_gained(sorted(gained))
        return True

    def _was_removed(self, state: GroupState) -> bool:
        """Whether its session timed out and was removed.

        Whatever is free now may then have had another owner meanwhile.
        """
        is_there = any(session.member_id == self.member.id for session in state.sessions)
        # A session that was wiped within its time is just written anew: nobody could have taken the shards.
        is_over = now_ns() - self._renewed_ns >= self._assignor.session_timeout_ns
        return bool(self.member.shards) and not is_there and is_over

    async def _lose(self, decision: ShareDecision, state: GroupState) -> None:
        """Drop all shards, which others have or had, and go on as another member, without any."""
        own = self.member.id
        logger.error("others have shards of member %s, or had: its records are dropped, uncommitted", own)
        # Before anything is awaited: commits of another generation are refused from here on.
        self.generation += 1
        await self._listener.on_lost()
        self.member = V3ioMember(_new_id(self._function))
        self._renewed_ns = _NEVER
        others = tuple(session for session in decision.sessions if session.member_id != own)
        await self._item.replace(state, others)  # where that fails, the old session grows stale

    @property
    def _is_due(self) -> bool:
        return self._left_seconds <= 0

    @property
    def _pause_seconds(self) -> float:
        """Seconds until the next heartbeat."""
        left = self._heartbeat_seconds if self._renewed_ns == _NEVER else max(0.0, self._left_seconds)
        is_looking = self.takes_more and not self._assignor.has_share(self.member)
        return min(left, _POLL_SECONDS) if is_looking else left

    @property
    def _left_seconds(self) -> float:
        """Seconds until the session has to be renewed."""
        return (self._renewed_ns - now_ns()) / 1e9 + self._heartbeat_seconds

    def _report_refusal(self, refused: V3ioRefusedError) -> None:
        """Note a refused write: others are faster now and then, but not many times in a row."""
        self._refusal_count += 1
        if self._refusal_count >= _MANY_REFUSALS:
            self._report_failure(refused)

    def _report_failure(self, error: Exception) -> None:
        self.problem = f"the group's state can't be renewed: {error}"
        if self._failures.should_log():
            logger.warning("%s; trying again", self.problem)

    def _report_waiting(self) -> None:
        if self._waits.should_log():
            count = self._assignor.replica_count
            logger.info("each of the group's %d shares of shards has a member: this replica stands by", count)


def _new_id(function: str) -> str:
    return f"{function}-{''.join(secrets.choice(_ID_DIGITS) for _ in range(_ID_LENGTH))}"
