"""Refusals of a coordinator, what follows from them, and what users are told. Pure."""

from enum import Enum

from headrace.triggers.kafka.group.kip848.machine import GroupSettings

STALE_MEMBER_EPOCH = 113
_FENCED_MEMBER_EPOCH, _UNKNOWN_MEMBER_ID = 110, 25
_UNRELEASED_INSTANCE_ID, _GROUP_FULL, _UNSUPPORTED_ASSIGNOR = 111, 81, 112
_FENCED_INSTANCE_ID = 82
_GROUP_ID_NOT_FOUND, _UNSUPPORTED_VERSION, _INVALID_REQUEST = 69, 35, 42
_GROUP_UNAUTHORIZED, _TOPIC_UNAUTHORIZED = 30, 29
LOST = frozenset({_FENCED_MEMBER_EPOCH, _UNKNOWN_MEMBER_ID, _FENCED_INSTANCE_ID, _GROUP_ID_NOT_FOUND})
"""Errors of one that is no member any more: what it has is somebody else's, or will be."""
NO_SUCH_API = (
    "{brokers}: this broker has no group protocol `consumer` (Kafka 4.0 brings it); remove groupProtocol, or"
    " say classic"
)
_FATAL = {
    _GROUP_ID_NOT_FOUND: "group {group} is used by members of the protocol classic, and can't be converted:"
    " stop them first, or say groupProtocol: classic",
    _UNSUPPORTED_ASSIGNOR: "the broker has no groupRemoteAssignor {assignor}: {message}",
    _UNSUPPORTED_VERSION: NO_SUCH_API,
    _GROUP_UNAUTHORIZED: "{brokers} does not let this user join group {group}",
    _TOPIC_UNAUTHORIZED: "{brokers} does not let this user read all topics of group {group}",
    _INVALID_REQUEST: "{brokers} refuses heartbeats to group {group}: {message}",
    _FENCED_INSTANCE_ID: "another member of group {group} has groupInstanceId {instance} now, and what this"
    " one had: each replica needs an id of its own, such as $HOSTNAME",
}
_WAITING = {
    _UNRELEASED_INSTANCE_ID: "group {group} still has a member with groupInstanceId {instance}: waiting until"
    " it leaves, or its session ends",
    _GROUP_FULL: "group {group} has as many members as the broker allows (group.consumer.max.size)",
}


class RefusalAction(Enum):
    """The action of a member after a refusal."""

    LOST = "lost"
    """Drop everything, then join again."""
    RETRY = "retry"
    """Look for the coordinator again, which may have moved."""
    WAIT = "wait"
    """Wait until others have done something."""
    END = "end"
    """End: waiting doesn't mend it."""


def action_after(error_code: int) -> RefusalAction:
    """Return what to do after an error. Unknown ones are tried again."""
    # First: an error that ends the member may also say that it is lost.
    if error_code in _FATAL:
        return RefusalAction.END
    if error_code in LOST:
        return RefusalAction.LOST
    return RefusalAction.WAIT if error_code in _WAITING else RefusalAction.RETRY


def message_for(error_code: int, message: str, settings: GroupSettings, brokers: str) -> str:
    """Return a line that says what a user can do about it."""
    found = {**_FATAL, **_WAITING}.get(error_code, "group {group}: the coordinator answers {message}")
    return found.format(
        group=settings.group,
        brokers=brokers,
        assignor=settings.remote_assignor,
        instance=settings.instance_id,
        message=message or f"with error {error_code}",
    )
