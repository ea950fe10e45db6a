"""What a failed write says about its messages: which of them is to blame, if any, and in words."""

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
    """Whose an error is."""

    PRODUCER = auto()
    """Nothing is wrong with the messages: something else has failed, and the producer is out of step."""
    TOPIC = auto()
    """Nothing can be written to it now, whatever the message: they wait."""
    BATCH = auto()
    """The broker refuses a message of it, and says not which: the others would be taken without it."""
    MESSAGES = auto()
    """None of them can be written, ever."""


def fault_of(error: BaseException) -> Fault:
    """Of a batch of several; what is alone is to blame itself for a BATCH."""
    if type(error) is KafkaError or isinstance(error, _OF_THE_PRODUCER):
        return Fault.PRODUCER
    if isinstance(error, MissingPartitionError) or not isinstance(error, KafkaError):
        return Fault.MESSAGES
    is_answer = isinstance(error, BrokerResponseError) and not error.retriable
    return Fault.BATCH if is_answer and not isinstance(error, _OF_THE_TOPIC) else Fault.TOPIC


def why_away(error: BaseException, topic: str, access: BrokerAccess) -> str:
    """Why nothing can be written to a topic, in one line, with what to change."""
    match error:
        case UnknownTopicOrPartitionError():
            line = f"there is no topic {topic} at {access}: `headrace kafka topics --create {topic}:8`"
        case TopicAuthorizationFailedError() | ClusterAuthorizationFailedError():
            line = f"{access} does not let this user write to topic {topic}"
        case _:
            line = f"topic {topic} at {access} takes no messages ({type(error).__name__})"
    return line


def explained(error: BaseException, message: Message, access: BrokerAccess) -> str:
    """Why a message can't be written, in one line, with what to change."""
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
