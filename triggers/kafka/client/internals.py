"""Parts of a consumer beyond aiokafka's public API that Headrace touches, pinned to 0.14, tested one by one.

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
    KafkaError,
    NoError,
    RebalanceInProgressError,
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

# Answers to a member: a rebalance is for those who are in the group.
_MEMBER_CODES = (NoError.errno, RebalanceInProgressError.errno)
_ASK_FOR_LEADER_SECONDS = 1.0
_READ_SECONDS = 0.002


async def high_watermark(consumer: AIOKafkaConsumer, tp: TopicPartition) -> int:
    """Return where the log ends, open transactions included. Raises KafkaError.

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
    """Have the consumer look at its topics now: the group's leader rebalances when partitions were added.

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
        # Ended in this very turn, and still counted as open: without this the fetcher would sleep over it.
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
        # Before it is sent: the broker counts the session from when it got the request, or later.
        sent_ns = now_ns()
        response = await send(request)
        is_about_membership = isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest)
        if is_about_membership and response.error_code in _MEMBER_CODES:
            on_renewed(sent_ns, response.error_code == RebalanceInProgressError.errno)
        return response

    coordinator._send_req = watched  # noqa: SLF001


def generation(consumer: AIOKafkaConsumer) -> int:
    """Return the group generation that this member is in; below 0 once the membership is lost.

    A lost membership has no callback of its own: it comes as a revoke like any other.
    """
    return int(consumer._coordinator.generation)  # noqa: SLF001


async def is_member(consumer: AIOKafkaConsumer) -> bool:
    """Whether the broker answers a heartbeat that is sent now as a member's. Raises KafkaError.

    aiokafka sends them at its own times, and doesn't tell of the answer.
    """
    return generation(consumer) >= 0 and bool(await consumer._coordinator._do_heartbeat())  # noqa: SLF001


async def stop(consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
    """Stop the consumer, also amid a join, which only another connection can end. Bound it by a timeout.

    By itself `consumer.stop()` would wait until the whole group has joined; a newcomer would then be given
    partitions, and keep them until its session ends.
    """
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    is_joining = coordinator._performed_join_prepare  # noqa: SLF001
    stopping = asyncio.create_task(consumer.stop())
    try:
        if is_joining and coordinator.member_id:
            with contextlib.suppress(KafkaError):
                # By the admin's connection: on the consumer's own, this would wait behind the join.
                node = await admin.find_coordinator(coordinator.group_id)
                await admin._send_request(  # noqa: SLF001
                    LeaveGroupRequest(coordinator.group_id, coordinator.member_id), node
                )
        await stopping
    finally:
        stopping.cancel()


def rebind_globals(method: FunctionType, owner: object, **others: object) -> MethodType:
    """Return `method`, bound to `owner`, with some global names standing for `others`.

    So a method of aiokafka's uses other classes for one object only; nobody else notices.
    """
    names = {**method.__globals__, **others}
    copy = FunctionType(method.__code__, names, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return MethodType(copy, owner)
