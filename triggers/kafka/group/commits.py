"""A member's commits: sent with its id and epoch, which a coordinator compares with what it knows."""

from collections.abc import Mapping

from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    NotCoordinatorForGroupError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError
from headrace.triggers.kafka.group.offset_wire import CommitRequest, read_errors
from headrace.triggers.kafka.group.refusals import LOST, STALE_MEMBER_EPOCH
from headrace.triggers.kafka.group.session import Session

_MOVED = {
    it.errno
    for it in (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)
}
_TOO_LONG = {it.errno for it in (OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError)}
_OF_ONE_PARTITION = {it.errno for it in (UnknownTopicOrPartitionError, TopicAuthorizationFailedError)}


class MemberCommits:
    """Of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def generation(self) -> int | None:
        """Of the membership. Epochs go on within one, and retained partitions with them."""
        return self._session.membership

    async def write(self, offsets: Mapping[PartitionKey, tuple[int, str]]) -> Mapping[PartitionKey, str]:
        """As OffsetStore says; again where the epoch has gone on meanwhile. The caller bounds the time."""
        membership = self.generation
        while (errors := await self._send(offsets)) and STALE_MEMBER_EPOCH in errors.values():
            if not await self._session.confirm() or self.generation != membership:
                break
        codes = set(errors.values())
        if codes & LOST or self.generation != membership:
            raise CommitRefusedError("the group has gone on without this replica")
        if codes & _MOVED:
            self._session.coordinator.forget()
        if codes & _TOO_LONG:
            raise TextTooLongError("the broker takes less metadata")
        if others := codes - _OF_ONE_PARTITION:
            raise CommitRefusedError(", ".join(sorted(for_code(code).__name__ for code in others)))
        return {key: for_code(code).__name__ for key, code in errors.items()}

    async def _send(self, offsets: Mapping[PartitionKey, tuple[int, str]]) -> dict[PartitionKey, int]:
        session = self._session
        who = session.member_id, session.machine.epoch, session.settings.instance_id
        try:
            request = CommitRequest(session.settings.group, who, offsets)
            return read_errors(await session.coordinator.send(request))
        except KafkaError as error:
            raise CommitRefusedError(str(error) or type(error).__name__) from error
