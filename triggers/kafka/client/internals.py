"""What Headrace touches of a consumer and its group beyond the public API, pinned to 0.14, tested one by one.

Each function says what happens without it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    NoError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from aiokafka.protocol.offset import OffsetRequest

from headrace.runtime.wire.lease import now_ns

# Trying again doesn't mend these: the next fetch raises them, with or without `watch_joins`.
_REFUSED_JOINS = (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
)


# The group has gone on without this member, and waits for it: try again at once.
_OVERTAKEN = (RebalanceInProgressError, IllegalGenerationError, UnknownMemberIdError)


# As it is with the first groups of a new broker: these pass, mostly within milliseconds.
_PASSING = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)


# Answers to a member: a rebalance is for those who are in the group.
_MEMBER_CODES = (NoError.errno, RebalanceInProgressError.errno)


_ASK_FOR_LEADER_SECONDS = 1.0


_READ_SECONDS = 0.002


async def high_watermark(consumer: AIOKafkaConsumer, tp: TopicPartition) -> int:
    """Where the log ends, open transactions included. Raises KafkaError.

    `end_offsets` answers with the last stable offset where the isolation level is read_committed.
    """
    client: Any = consumer._client  # noqa: SLF001
    request = OffsetRequest(-1, 0, [(tp.topic, [(tp.partition, -1)])])
    response: Any = await client.send(client.cluster.leader_for_partition(tp), request)
    ((_, ((_, error_code, _, offset),)),) = response.topics  # an answer about anything else isn't let through
    if error_code:
        error: KafkaError = for_code(error_code)()
        raise error
    return int(offset)


def refresh_metadata(consumer: AIOKafkaConsumer) -> None:
    """Have it look at its topics now: the group's leader rebalances when their partitions have changed.

    By itself it looks once in `metadata_max_age_ms`.
    """
    consumer._client.force_metadata_update()  # noqa: SLF001


def tune(consumer: AIOKafkaConsumer, retry_seconds: float) -> None:
    """Settings of the fetcher that the consumer doesn't offer, and one wake-up that it misses.

    A partition whose data lies unread must not keep the others of its node from being fetched: by default
    the node is held back for 0.1 s, and pausing instead would throw the data away. Only for a moment, as most
    data are read by then: else these would wait for the others' answer.
    After a failed fetch `retry_seconds` pass; by default what the coordinator waits, 0.1 s.
    For a partition without a leader, metadata is asked for once a second; by default without a pause.
    A request that is answered in the turn of the event loop in which something is read counts as open in that
    turn, and its end wakes nobody in the next one: the fetcher would sleep for 0.2 s.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    fetcher._prefetch_backoff = _READ_SECONDS  # noqa: SLF001
    fetcher._retry_backoff = retry_seconds  # noqa: SLF001
    loop = asyncio.get_running_loop()
    actions, asked_at = fetcher._get_actions_per_node, -_ASK_FOR_LEADER_SECONDS  # noqa: SLF001

    def paced(assignment: object) -> Any:
        nonlocal asked_at
        open_count = sum(not task.done() for task in fetcher._pending_tasks)  # noqa: SLF001
        if len(fetcher._in_flight) > open_count:  # noqa: SLF001
            loop.call_soon(fetcher._notify, fetcher._wait_consume_future)  # noqa: SLF001
        *others, lacks_leader, futures = actions(assignment)
        if lacks_leader and (now := now_ns() / 1e9) >= asked_at + _ASK_FOR_LEADER_SECONDS:
            asked_at = now
            return *others, True, futures
        return *others, False, futures

    fetcher._get_actions_per_node = paced  # noqa: SLF001


def watch_session(consumer: AIOKafkaConsumer, on_renewed: Callable[[int, bool], None]) -> None:
    """Tell when each request was sent by whose answer the broker says that this member is one (clock.py).

    And whether the answer says that the group rebalances, and waits for this member to join again.

    The broker counts the session from when it got the request, or from its answer: not before that time.
    aiokafka keeps the times of answers only.
    """
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    send = coordinator._send_req  # noqa: SLF001

    async def watched(request: object) -> Any:
        sent_ns = now_ns()
        response = await send(request)
        is_about_membership = isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest)
        if is_about_membership and response.error_code in _MEMBER_CODES:
            on_renewed(sent_ns, response.error_code == RebalanceInProgressError.errno)
        return response

    coordinator._send_req = watched  # noqa: SLF001


def generation(consumer: AIOKafkaConsumer) -> int:
    """The group generation that this member is in; below 0 once the membership is lost.

    A lost membership has no callback of its own: it comes as a revoke like any other.
    """
    return int(consumer._coordinator.generation)  # noqa: SLF001


async def is_member(consumer: AIOKafkaConsumer) -> bool:
    """Whether the broker answers a heartbeat that is sent now as a member's. Raises KafkaError.

    aiokafka sends them at its own times, and doesn't tell of the answer.
    """
    return generation(consumer) >= 0 and bool(await consumer._coordinator._do_heartbeat())  # noqa: SLF001


async def stop(consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
    """`consumer.stop()`, also amid a join, which only another connection can end. To be bounded by a timeout.

    By itself it would wait until the whole group has joined; a newcomer would then be given partitions, and
    keep them until its session ends.
    """
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    is_joining = coordinator._performed_join_prepare  # noqa: SLF001
    stopping = asyncio.create_task(consumer.stop())
    try:
        if is_joining and coordinator.member_id:
            with contextlib.suppress(KafkaError):
                node = await admin.find_coordinator(coordinator.group_id)
                await admin._send_request(  # noqa: SLF001
                    LeaveGroupRequest(coordinator.group_id, coordinator.member_id), node
                )
        await stopping
    finally:
        stopping.cancel()


def watch_joins(
    consumer: AIOKafkaConsumer,
    backoff_seconds: float,
    on_failures: Callable[[int, KafkaError], None],
    on_joined: Callable[[], None],
) -> None:
    """Tell of each failed join (how many in a row, the last error), and try again after `backoff_seconds`.

    To be called before `subscribe`. By default joins fail silently and are tried again after 0.1 s, and an
    answer that aiokafka doesn't expect (the group is full) ends the consumer instead.
    """
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    watch = _JoinWatch(coordinator, backoff_seconds, on_failures, on_joined)
    coordinator._send_req = watch.send  # noqa: SLF001
    coordinator._do_rejoin_group = watch.join  # noqa: SLF001


class _JoinWatch:
    """Stands around two methods of a group coordinator: one join, and the requests that it is made of."""

    def __init__(
        self,
        coordinator: Any,
        backoff_seconds: float,
        on_failures: Callable[[int, KafkaError], None],
        on_joined: Callable[[], None],
    ) -> None:
        self._closing: asyncio.Future[None] = coordinator._closing  # noqa: SLF001
        self._send = coordinator._send_req  # noqa: SLF001
        self._join = coordinator._do_rejoin_group  # noqa: SLF001
        self._backoff_seconds = backoff_seconds
        self._on_failures = on_failures
        self._on_joined = on_joined
        self._failures = 0
        self._errors: list[KafkaError] = []  # of the join under way
        self._failed_at = 0.0
        self._passing_since: float | None = None

    async def send(self, request: object) -> Any:
        """Any request to the coordinator; notes how joins and syncs went, which `join` doesn't hear."""
        if not isinstance(request, JoinGroupRequest | SyncGroupRequest):
            return await self._send(request)
        if self._closing.done():
            raise KafkaError("the consumer is closing")
        try:
            response = await self._send(request)
        except KafkaError as error:
            self._note(error)
            raise
        if code := response.error_code:
            kind = for_code(code)
            self._note(UnknownError(f"code {code}") if kind is UnknownError else kind())
        return response

    def _note(self, error: KafkaError) -> None:
        self._errors.append(error)
        self._failed_at = asyncio.get_running_loop().time()

    async def join(self, subscription: Any) -> bool:
        """One try. A join that is overtaken by another rebalance counts as failed, and is repeated at once.

        A member id to join with (MemberIdRequired) is no failure: aiokafka asks again by itself. Nor is a
        coordinator that moves or loads, for as long as one wait would take.
        """
        self._errors.clear()
        try:
            is_joined = bool(await self._join(subscription))
        except _REFUSED_JOINS:
            raise
        except KafkaError as error:
            is_joined = False
            if not self._errors:
                self._note(error)
        if is_joined:
            self._failures = 0
            self._passing_since = None
            self._on_joined()
        elif self._errors and subscription.active and not self._closing.done():
            await self._failed(subscription, self._errors[-1])
        return is_joined

    async def _failed(self, subscription: Any, error: KafkaError) -> None:
        """Tell, and wait where that may help. aiokafka has waited a little already."""
        if isinstance(error, _PASSING):
            self._passing_since = self._passing_since or self._failed_at
            if self._failed_at < self._passing_since + self._backoff_seconds:
                return
        self._failures += 1
        self._on_failures(self._failures, error)
        if not isinstance(error, _OVERTAKEN):
            seconds = self._failed_at + self._backoff_seconds - asyncio.get_running_loop().time()
            await asyncio.wait([self._closing, subscription.unsubscribe_future], timeout=max(0, seconds))


def rebind_globals(method: FunctionType, owner: object, **others: object) -> MethodType:
    """`method`, bound to `owner`, for which some global names stand for `others`; nobody else notices."""
    names = {**method.__globals__, **others}
    copy = FunctionType(method.__code__, names, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return MethodType(copy, owner)
