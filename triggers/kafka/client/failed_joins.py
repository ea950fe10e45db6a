"""Joins of the consumer group that fail: counted, tried again, and reported.

Reaches into aiokafka, pinned to 0.14.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.group import JoinGroupRequest, SyncGroupRequest

logger = logging.getLogger(__name__)

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


class FailedJoins:
    """Failed joins in a row, counted in cycles of one try and `retry_max` retries. `watch_joins` calls it.

    A cycle that is spent is an error line, a call of `on_spent` (a metric) and a `problem`; the next one
    follows after the same wait as every try. The problem stands until a join succeeds.
    """

    def __init__(
        self, group: str, retry_max: int, backoff_seconds: float, on_spent: Callable[[], None]
    ) -> None:
        self._group = group
        self._retry_max = retry_max
        self._backoff_seconds = backoff_seconds
        self._on_spent = on_spent
        self._failures = 0
        self.problem = ""

    def failed(self, failures: int, error: KafkaError) -> None:
        """Count `failures` joins in a row, the last of which failed with `error`."""
        self._failures = failures
        if failures % (self._retry_max + 1):
            return
        self.problem = f"joining group {self._group} failed {_times(failures)}: {error}"
        logger.error(
            "%s; nothing is delivered until it succeeds, tried again every %g s (rebalanceRetryBackoff)",
            self.problem,
            self._backoff_seconds,
        )
        self._on_spent()

    def joined(self) -> None:
        """Begin anew: this replica is a member."""
        if self.problem:
            logger.info("joined group %s after it failed %s", self._group, _times(self._failures))
        self._failures = 0
        self.problem = ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"


def watch_joins(
    consumer: AIOKafkaConsumer,
    backoff_seconds: float,
    on_failures: Callable[[int, KafkaError], None],
    on_joined: Callable[[], None],
) -> None:
    """Tell of each failed join (how many in a row, the last error), and retry after `backoff_seconds`.

    To be called before `subscribe`. By default joins fail silently and are tried again after 0.1 s, and an
    answer that aiokafka doesn't expect (the group is full) ends the consumer instead.
    """
    coordinator: Any = consumer._coordinator  # noqa: SLF001
    watch = _JoinWatch(coordinator, backoff_seconds, on_failures, on_joined)
    coordinator._send_req = watch.send  # noqa: SLF001
    coordinator._do_rejoin_group = watch.join  # noqa: SLF001


class _JoinWatch:
    """Wrapper of two methods of a group coordinator: one join, and the requests that it is made of."""

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
        """Send any request, and note errors of joins and syncs, which `join` doesn't hear of."""
        if not isinstance(request, JoinGroupRequest | SyncGroupRequest):
            return await self._send(request)
        # A stop must not wait for a join that begins now.
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
        """Join once. A join that is overtaken by another rebalance has failed, and is repeated at once.

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
        # For as long as one wait would take it is no failure: the first groups of a new broker meet it
        # always.
        if isinstance(error, _PASSING):
            self._passing_since = self._passing_since or self._failed_at
            if self._failed_at < self._passing_since + self._backoff_seconds:
                return
        self._failures += 1
        self._on_failures(self._failures, error)
        # The group waits for a member that was overtaken. All others wait: the coordinator is asked often
        # enough.
        if not isinstance(error, _OVERTAKEN):
            seconds = self._failed_at + self._backoff_seconds - asyncio.get_running_loop().time()
            await asyncio.wait([self._closing, subscription.unsubscribe_future], timeout=max(0, seconds))
