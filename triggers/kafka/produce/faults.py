"""Faults of failed writes: which of their messages is to blame, if any, and in words."""

from enum import Enum, auto

from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    IllegalOperation,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTxnState,
    KafkaError,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownProducerId,
    UnknownTopicOrPartitionError,
)

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.wire.produce import Message

OUT_OF_STEP = (OutOfOrderSequenceNumber, UnknownProducerId, ProducerFenced, ProducerClosed)
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_OF_THE_PRODUCER = (*OUT_OF_STEP, InvalidTxnState, IllegalOperation)
_OF_THE_TOPIC = (
    UnknownTopicOrPartitionError,
    TopicAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
)


class MissingPartitionError(KafkaError):  # type: ignore[misc]  # aiokafka is untyped
    """The topic is there, and has no partition of that number."""


class Fault(Enum):
    """The culprit of a failed write."""

    PRODUCER = auto()
    """Something else has failed, and the producer is out of step: nothing is wrong with the messages."""
    TOPIC = auto()
    """The topic takes nothing now, whatever the message: messages wait."""
    BATCH = auto()
    """The broker refuses a message of it, and says not which: the others would be taken without it."""
    MESSAGES = auto()
    """The messages can never be written."""


def fault_of(error: BaseException) -> Fault:
    """Return the culprit for a batch of several messages. A message alone is itself to blame for a BATCH."""
    # A bare KafkaError is what aiokafka makes of errors of its own, not of a broker's answer.
    if type(error) is KafkaError or isinstance(error, _OF_THE_PRODUCER):
        return Fault.PRODUCER
    if isinstance(error, MissingPartitionError) or not isinstance(error, KafkaError):
        return Fault.MESSAGES
    # A broker's answer that trying again doesn't mend is about the content of the batch, unless its topic is
    # away.
    is_answer = isinstance(error, BrokerResponseError) and not error.retriable
    return Fault.BATCH if is_answer and not isinstance(error, _OF_THE_TOPIC) else Fault.TOPIC


def why_away(error: BaseException, topic: str, access: BrokerAccess) -> str:
    """Return why nothing can be written to a topic, in one line, with what to change."""
    match error:
        case UnknownTopicOrPartitionError():
            line = f"there is no topic {topic} at {access}: `headrace kafka topics --create {topic}:8`"
        case TopicAuthorizationFailedError() | ClusterAuthorizationFailedError():
            line = f"{access} does not let this user write to topic {topic}"
        case _:
            line = f"topic {topic} at {access} takes no messages ({type(error).__name__})"
    return line


def explained(error: BaseException, message: Message, access: BrokerAccess) -> str:
    """Return why a message can't be written, in one line, with what to change."""
    topic = message.topic
    match error:
        case InvalidTopicError():
            line = f"{topic!r} is no topic name: up to 249 of letters, digits, dots, _ and -"
        case MissingPartitionError():
            line = f"topic {topic} at {access} has no partition {message.partition}"
        case MessageSizeTooLargeError() | RecordListTooLargeError():
            line = f"topic {topic} takes no message of {message.size_bytes} bytes: raise max.message.bytes"
        case InvalidTimestampError():
            line = f"topic {topic} at {access} takes no message of that time: message.timestamp.*.max.ms"
        case UnknownError():  # aiokafka doesn't know INVALID_RECORD, nor passes on what the broker says
            line = f"topic {topic} at {access} refuses the message: a compacted one takes none without a key"
        case _:
            line = f"topic {topic} at {access}: {error or type(error).__name__}"
    return line
