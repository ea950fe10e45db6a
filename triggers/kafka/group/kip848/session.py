"""A member's session: heartbeats, and what comes of their answers. The I/O around the machine."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Protocol

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.groups import why_no_consumers
from headrace.runtime.partitions.key import PartitionKey, describe_partitions
from headrace.runtime.wire.lease import now_ns
from headrace.triggers.kafka.client.topics import topic_names
from headrace.triggers.kafka.group.kip848.coordinator import Coordinator
from headrace.triggers.kafka.group.kip848.machine import (
    JOIN,
    GroupSettings,
    Heartbeat,
    HeartbeatAnswer,
    Machine,
    PartitionMoves,
    SessionDeadline,
)
from headrace.triggers.kafka.group.kip848.move_history import MoveHistory
from headrace.triggers.kafka.group.kip848.refusals import (
    LOST,
    NO_SUCH_API,
    RefusalAction,
    action_after,
    message_for,
)
from headrace.triggers.kafka.group.kip848.requests import HeartbeatRequest, read_answer

logger = logging.getLogger(__name__)
_REPORT_AFTER_NS = 5 * 10**9
"""A topic that has just been made is known everywhere by then."""
_MAX_SHOWN = 3


class UnnamedTopics:
    """Topics whose partitions a coordinator gives by an id of which no broker tells the name.

    They wait until there is a name, and that is logged once.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._since_ns: int | None = None
        self._is_reported = False

    def look(self, topic_ids: AbstractSet[bytes], now_ns: int) -> None:
        """Take the ids that are still without a name after an answer."""
        if not topic_ids:
            self._since_ns, self._is_reported = None, False
            return
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns >= _REPORT_AFTER_NS and not self._is_reported:
            self._is_reported = True
            shown = ", ".join(it.hex() for it in sorted(topic_ids)[:_MAX_SHOWN])
            message = "group %s gives partitions of %d topics by ids that no broker has a name for (%s): %s"
            what = "nothing of them is read until one has"
            logger.warning(message, self._group, len(topic_ids), shown, what)


_RETRY_SECONDS = 0.5
_MAX_INTERVAL_SECONDS = 0.2
"""The longest wait between heartbeats, also where the coordinator asks for fewer.

What others have released, and what they wait for, is said in the answer to one, and not before.
"""
_NAMES_SECONDS = 1.0
_ASSUMED_INTERVALS = 3
"""A session, where the broker doesn't say how long one is: its default is nine heartbeats."""


class SessionListener(Protocol):
    """The membership that a session tells what has become of its partitions. None of these may wait."""

    def on_renewed(self, end_ns: int) -> None:
        """Note that the group keeps this member until then, by wire/clock.py."""

    def on_assigned(self, keys: Collection[PartitionKey]) -> None:
        """Take these, besides those that are here; none: it has joined, and stands by."""

    def on_revoked(self, keys: Collection[PartitionKey]) -> None:
        """Give these up, and call `released` once they are."""

    def on_lost(self, keys: Collection[PartitionKey]) -> None:
        """Drop these at once, and call `released`: others have them, or will. It joins again after that."""


class GroupSession:
    """A member of a group, on the event loop.

    Its owner awaits `run_forever`, and once that has ended `leave`.
    """

    def __init__(
        self, admin: AIOKafkaAdminClient, settings: GroupSettings, owner: SessionListener, brokers: str
    ) -> None:
        """`brokers`: for messages."""
        self.settings = settings
        # Members name themselves since version 1 of the heartbeat (Kafka 4.0).
        self.member_id = str(uuid.uuid4())
        self.machine = Machine(is_static=bool(settings.instance_id))
        self.coordinator = Coordinator(admin, settings.group)
        self.move_history = MoveHistory(self.coordinator, settings.group, lambda: self.member_id)
        self.problem = ""
        """Why it is no member, where it isn't."""
        self._admin = admin
        self._owner = owner
        self._brokers = brokers
        self._interval_seconds = _MAX_INTERVAL_SECONDS
        """Seconds between heartbeats, as the coordinator asks for."""
        self._deadline = SessionDeadline(settings.rebalance_timeout_seconds)
        self._is_session_known = False
        self._is_over = False
        self._names: dict[bytes, str] = {}
        self._unnamed = UnnamedTopics(settings.group)
        self._due = asyncio.Event()
        self._confirmations: list[asyncio.Future[bool]] = []

    @property
    def membership(self) -> int | None:
        """The number of the membership, which counts joins; None while the group doesn't count on it."""
        return self.machine.membership if self.machine.is_member else None

    def subscribe(self, topics: Collection[str]) -> None:
        """Read these topics from now on."""
        self.machine.subscribe(topics)
        self._due.set()

    def heartbeat_now(self) -> None:
        """Send the next heartbeat now."""
        self._due.set()

    def released(self, keys: Collection[PartitionKey]) -> None:
        """Tell the group at once: nothing is done with these any more, and what was is committed."""
        self.machine.released(keys)
        if self.machine.is_heartbeat_due:
            self._due.set()

    async def confirm(self) -> bool:
        """Whether a heartbeat that is sent now is answered as a member's. The epoch is the newest then."""
        if self._is_over:
            return False
        confirmation: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._confirmations.append(confirmation)
        self._due.set()
        return await confirmation

    async def run_forever(self) -> None:
        """Join, and stay. Raises BrokerError where waiting doesn't mend what is refused."""
        try:
            while True:
                # Cleared before the heartbeat: what is due during it goes out right after it.
                self._due.clear()
                seconds = await self._send_heartbeat()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._due.wait()
        finally:
            await self.move_history.close()
            # Whoever still waits for a confirmation, or asks for one now, must not wait for ever.
            self._is_over = True
            self._confirm(self._confirmations, is_member=False)

    async def leave(self) -> None:
        """Leave, once, after `run_forever` has ended. Raises KafkaError. Bounded.

        Others have its partitions at once; a static member's wait for it.
        """
        if self.machine.leave() and (last := self.machine.next_heartbeat()) is not None:
            await self.coordinator.send(HeartbeatRequest(self.settings, self.member_id, last))

    async def _send_heartbeat(self) -> float | None:
        """Send one heartbeat. Return the seconds until the next one; None: when one is due."""
        heartbeat = self.machine.next_heartbeat()
        if heartbeat is None:
            self._confirm(self._confirmations, is_member=False)
            self._confirmations = []
            return None
        confirmations, self._confirmations = self._confirmations, []
        if heartbeat.epoch == JOIN:
            self._deadline.join()
        # Before it is sent: the coordinator starts its clocks when it gets the heartbeat, or later.
        self._deadline.sent(now_ns(), is_revoking=bool(self.machine.holdings.leaving))
        try:
            answer = await self._ask(heartbeat)
            if answer.error_code:
                await self._refused(heartbeat, answer)
            else:
                await self._answered(heartbeat, answer)
        except (KafkaError, TimeoutError) as error:
            # The coordinator may have got it or not: the next heartbeat says everything again.
            self.machine.answer_lost()
            self._set_problem(f"the coordinator of group {self.settings.group} can't be asked ({error!r})")
        finally:
            self._confirm(confirmations, is_member=self.machine.is_member and not self.problem)
        return _RETRY_SECONDS if self.problem else min(self._interval_seconds, _MAX_INTERVAL_SECONDS)

    async def _ask(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        try:
            if heartbeat.epoch == JOIN:
                await self._learn_session()
            request = HeartbeatRequest(self.settings, self.member_id, heartbeat)
            return read_answer(await self.coordinator.send(request))
        except (IncompatibleBrokerVersion, NotImplementedError):
            raise BrokerError(NO_SUCH_API.format(brokers=self._brokers)) from None

    async def _learn_session(self) -> None:
        """Ask how long a session is, which answers don't say."""
        seconds = await self.coordinator.session_seconds()
        self._is_session_known = seconds is not None
        self._deadline.session_seconds = seconds or 0.0

    async def _answered(self, sent: Heartbeat, answer: HeartbeatAnswer) -> None:
        machine, before = self.machine, self.machine.epoch
        self._set_problem("")
        self._interval_seconds = answer.interval_seconds
        if not self._is_session_known:
            self._deadline.session_seconds = _ASSUMED_INTERVALS * answer.interval_seconds
        machine.answered(sent, answer)
        end_ns = self._deadline.answered()
        # Before partitions come: the lease has to be in force for what is handed out of them.
        self._owner.on_renewed(end_ns)
        if end_ns <= now_ns():
            self._due.set()  # after a long silence: the answer to the next one counts from now on
        if has_joined := sent.epoch == JOIN:
            message = "member %s of group %s: a session of %g s, as the broker decides"
            logger.info(message, self.member_id, self.settings.group, self._deadline.session_seconds)
        # Partitions come by the ids of their topics. Records are fetched by name, so a new id has to be
        # looked up.
        if not machine.holdings.unnamed <= self._names.keys():
            if not has_joined:
                self._move(has_joined=False)  # what goes needs no names
            with contextlib.suppress(KafkaError, TimeoutError):  # they are asked for after the next answer
                async with asyncio.timeout(_NAMES_SECONDS):
                    self._names |= await topic_names(self._admin, machine.topics)
        self._unnamed.look(machine.holdings.unnamed - self._names.keys(), now_ns())
        has_moved = self._move(has_joined=has_joined)
        # Somebody has come or gone, and nothing has moved here: who has what is looked up all the same, so
        # that the next move can say from whom.
        if machine.epoch != before and not has_moved:
            self.move_history.on_changed(PartitionMoves())
        if machine.is_heartbeat_due:
            self._due.set()

    def _move(self, *, has_joined: bool) -> bool:
        """Move towards what the coordinator has said, as far as its topics have names.

        Return whether any partition has moved.
        """
        moves = self.machine.move(self._names)
        has_moved = bool(moves.given or moves.revoked)
        if has_moved:
            come, go = describe_partitions(moves.given), describe_partitions(moves.revoked)
            stay = len(self.machine.holdings.held) - len(moves.given)
            message = "group %s, epoch %d: %s come, %s go, %d stay as they are"
            logger.info(message, self.settings.group, self.machine.epoch, come, go, stay)
            self.move_history.on_changed(moves)
        if moves.revoked:
            self._owner.on_revoked(moves.revoked)
        if moves.given or has_joined:
            self._owner.on_assigned(moves.given)
        return has_moved

    async def _refused(self, sent: Heartbeat, answer: HeartbeatAnswer) -> None:
        action = action_after(answer.error_code)
        text = message_for(answer.error_code, answer.message, self.settings, self._brokers)
        if answer.error_code in LOST:
            self._drop_all()
        if action is RefusalAction.END:
            # A share group, or one of Kafka Streams, gets the same error as a wrong setting: this says which
            # it is.
            raise BrokerError(await why_no_consumers(self._admin, self.settings.group) or text)
        if action is RefusalAction.LOST:
            if sent.epoch != JOIN:
                # It joins again once all that it had is released.
                self._due.set()
                return
            # What it was before is still in the group, which takes no other member of that name.
            with contextlib.suppress(KafkaError, TimeoutError):
                await self._ask(self.machine.leave_heartbeat)
        if action is RefusalAction.RETRY:
            # Found again by the next heartbeat.
            self.coordinator.forget()
        self.machine.answer_lost()
        self._set_problem(text)

    def _drop_all(self) -> None:
        """Drop all partitions at once. It may join again once they are released."""
        if lost := self.machine.fenced():
            message = "group %s has gone on without this member: %s dropped here, uncommitted"
            logger.error(message, self.settings.group, describe_partitions(lost))
            self._owner.on_lost(lost)

    def _set_problem(self, problem: str) -> None:
        """Log a problem once, until there is another one, or none."""
        if problem and problem != self.problem:
            logger.warning("%s; trying again", problem)
        elif self.problem and not problem:
            logger.info("group %s answers again", self.settings.group)
        self.problem = problem

    @staticmethod
    def _confirm(confirmations: Collection[asyncio.Future[bool]], *, is_member: bool) -> None:
        for each in confirmations:
            if not each.done():
                each.set_result(is_member)
