"""What a failed write says about its messages: which of them is to blame, if any, and in words."""

from enum import Enum, auto

from aiokafka.errors import (
    BrokerResponseError,
    IllegalOperation,
    InvalidTimestampError,
    InvalidTxnState,
    KafkaError,
    MessageSizeTooLargeError,
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
_NOT_OF_ONE_MESSAGE = (UnknownTopicOrPartitionError, TopicAuthorizationFailedError)


class NoSuchPartitionError(KafkaError):  # type: ignore[misc]  # aiokafka is untyped
    """The topic is there, and has no partition of that number."""


class Fault(Enum):
    """Whose an error is."""

    PRODUCER = auto()
    """Nothing is wrong with the messages: something else has failed, and the producer is out of step."""
    BATCH = auto()
    """The broker refuses a message of it, and says not which: the others would be taken without it."""
    MESSAGES = auto()
    """None of them can be written."""


def fault_of(error: BaseException) -> Fault:
    """Of a batch of several; what is alone is to blame itself for a BATCH."""
    if type(error) is KafkaError or isinstance(error, _OF_THE_PRODUCER):
        return Fault.PRODUCER
    if isinstance(error, BrokerResponseError) and not isinstance(error, _NOT_OF_ONE_MESSAGE):
        return Fault.BATCH
    return Fault.MESSAGES


def explained(error: BaseException, message: Message, access: BrokerAccess) -> str:
    """Why a message can't be written, in one line, with what to change."""
    topic = message.topic
    match error:
        case UnknownTopicOrPartitionError():
            line = f"there is no topic {topic} at {access}: `headrace kafka topics --create {topic}:8`"
        case NoSuchPartitionError():
            line = f"topic {topic} at {access} has no partition {message.partition}"
        case MessageSizeTooLargeError() | RecordListTooLargeError():
            line = f"topic {topic} takes no message of {message.size_bytes} bytes: raise max.message.bytes"
        case InvalidTimestampError():
            line = f"topic {topic} at {access} takes no message of that time: message.timestamp.*.max.ms"
        case UnknownError():  # aiokafka doesn't know INVALID_RECORD, nor passes on what the broker says
            line = f"topic {topic} at {access} refuses the message: a compacted one takes none without a key"
        case TopicAuthorizationFailedError():
            line = f"{access} does not let this user write to topic {topic}"
        case _:
            line = f"topic {topic} at {access}: {error or type(error).__name__}"
    return line
