"""Commits of a member: sent with its id and epoch, which a coordinator compares with what it knows."""

import asyncio
import time
from collections.abc import Collection, Mapping
from math import inf

from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    NotCoordinatorForGroupError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownTopicOrPartitionError,
    for_code,
)

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError
from headrace.triggers.kafka.client.commits import Commit
from headrace.triggers.kafka.group.kip848.refusals import LOST, STALE_MEMBER_EPOCH
from headrace.triggers.kafka.group.kip848.requests import (
    CommitRequest,
    FetchCommitsRequest,
    read_commits,
    read_errors,
)
from headrace.triggers.kafka.group.kip848.session import GroupSession

_RETRY_SECONDS = 0.1
_MOVED = {
    it.errno
    for it in (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)
}
_TOO_LONG = {it.errno for it in (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError)}
_OF_ONE_PARTITION = {it.errno for it in (UnknownTopicOrPartitionError, TopicAuthorizationFailedError)}


class MemberCommits:
    """Commits of one session, written and read."""

    def __init__(self, session: GroupSession) -> None:
        self._session = session
        self.unanswered_at = -inf
        """When, by time.monotonic, a request was last left without an answer. It may still come."""

    @property
    def generation(self) -> int | None:
        """The number of the membership. Epochs go on within one, and retained partitions with them."""
        return self._session.membership

    async def write(self, offsets: Mapping[PartitionKey, tuple[int, str]]) -> Mapping[PartitionKey, str]:
        """Commit these. Return why, by partition, of those that were refused.

        Raises what OffsetStore.write does.

        Sent again where the epoch has gone on meanwhile, or the coordinator is away: the caller bounds the
        time.
        """
        membership = self.generation
        while True:
            errors = await self._send(offsets)
            # Fenced meanwhile: others may have the partitions, and have committed more.
            if self.generation != membership:
                raise CommitRefusedError("the group has gone on without this replica")
            if errors is not None and not await self._is_to_be_sent_again(set(errors.values())):
                return _refused(errors)

    async def read(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, Commit]:
        """Return the group's commits, without those that have none. Raises KafkaError.

        The coordinator answers a member of the epoch that it knows only: nobody else has them by then.
        """
        session = self._session
        while True:
            who = session.member_id, session.machine.epoch
            response = await session.coordinator.send(FetchCommitsRequest(session.settings.group, who, keys))
            code, commits = read_commits(response, session.settings.group)
            if not code:
                if missing := set(keys) - commits.keys():
                    raise UnknownError(f"the broker says nothing about {len(missing)} partitions")
                return {key: commit for key, commit in commits.items() if commit.offset >= 0}
            # The next heartbeat, which goes out now, tells the session.
            if code in LOST:
                session.heartbeat_now()
            elif code in _MOVED:
                session.coordinator.forget()
            if code != STALE_MEMBER_EPOCH or not await session.confirm():
                error: KafkaError = for_code(code)()
                raise error

    async def _send(self, offsets: Mapping[PartitionKey, tuple[int, str]]) -> dict[PartitionKey, int] | None:
        """Return errors by partition; None where it can't be known whether it has come."""
        session = self._session
        who = session.member_id, session.machine.epoch, session.settings.instance_id
        try:
            request = CommitRequest(session.settings.group, who, offsets)
            response = None
            try:
                response = await session.coordinator.send(request)
            finally:
                if response is None:  # cancelled, too
                    self.unanswered_at = time.monotonic()
            return read_errors(response)
        except KafkaError as error:
            if not error.retriable:
                raise CommitRefusedError(str(error) or type(error).__name__) from error
            await asyncio.sleep(_RETRY_SECONDS)
            return None

    async def _is_to_be_sent_again(self, codes: set[int]) -> bool:
        """Whether to send again what was refused. Waits for what may have changed."""
        session = self._session
        if codes & LOST:
            session.heartbeat_now()
            raise CommitRefusedError("the group has gone on without this replica")
        # The epoch has gone on, and the membership with it: a heartbeat brings the newest one.
        if STALE_MEMBER_EPOCH in codes:
            if not await session.confirm():
                raise CommitRefusedError("the group doesn't say that this replica is still a member")
            return True
        if codes & _MOVED:
            session.coordinator.forget()
            await asyncio.sleep(_RETRY_SECONDS)
            return True
        return False


def _refused(errors: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, str]:
    """Return refusals of single partitions. Raises what is about all of them."""
    codes = set(errors.values())
    if codes & _TOO_LONG:
        raise TextTooLongError("the broker takes less metadata")
    if others := codes - _OF_ONE_PARTITION:
        raise CommitRefusedError(", ".join(sorted(for_code(code).__name__ for code in others)))
    return {key: for_code(code).__name__ for key, code in errors.items()}
