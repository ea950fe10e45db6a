"""Leader epochs: what tells a log that was cut off and filled again from the one that was read (KIP-320).

A leader that was elected without what its forerunner had, or a disk that has lost it, ends an epoch early.
The offsets behind that end go to other records, and no error says so.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    LeaderNotAvailableError,
    UnknownError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String

from headrace.triggers.kafka.format.decoder import HEADER

_MAGIC_AT, _MAGIC = 16, 2
_BEFORE_LENGTH = 12
_UNKNOWN = -1


class ReadEpoch(NamedTuple):
    """An epoch of a partition's leader, and the offset up to which it was read."""

    epoch: int
    end: int


class LeaderEpochs:
    """Epochs of the partitions that are fetched, in which doubt stops them.

    Where a new epoch begins, nothing of the partition is taken in before its log is known not to have been
    cut.
    """

    def __init__(self, on_doubt: Callable[[], object]) -> None:
        """`on_doubt` is called when one more is doubted."""
        self._read: dict[TopicPartition, ReadEpoch] = {}
        self._doubted: dict[TopicPartition, ReadEpoch] = {}
        self._on_doubt = on_doubt

    @property
    def doubted(self) -> Mapping[TopicPartition, ReadEpoch]:
        """Partitions in whose logs what was read last may not be any more."""
        return self._doubted

    def fetched(self, tp: TopicPartition, data: bytes | memoryview) -> None:
        """Note the epochs of what has come. Within one answer, a log is what it is: its first batch tells."""
        if (found := _read_in(data)) is None:
            return
        first, last = found
        before = self._read.get(tp)
        # A later leader may lack what the one before had: whether it does is asked before more is taken in.
        if before is not None and before.epoch < first:
            self._doubted.setdefault(tp, before)  # nothing is taken in meanwhile: the oldest is what was read
            self._on_doubt()
        self._read[tp] = last

    def settle(self, tp: TopicPartition) -> None:
        """End the doubt: it is known where the log goes on."""
        self._doubted.pop(tp, None)

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition that others may read now."""
        self._read.pop(tp, None)
        self._doubted.pop(tp, None)


def _read_in(data: bytes | memoryview) -> tuple[int, ReadEpoch] | None:
    """Return the first batch's epoch, and how far the last one goes; None without batches of format v2."""
    first, last, at = _UNKNOWN, None, 0
    while len(data) - at >= HEADER.size and data[at + _MAGIC_AT] == _MAGIC:
        base, length, epoch, _, _, _, delta, *_ = HEADER.unpack_from(data, at)
        at += _BEFORE_LENGTH + length
        if length < 0 or at > len(data) or epoch < 0:
            break
        first = epoch if last is None else first
        last = ReadEpoch(epoch, base + delta + 1)
    return None if last is None else (first, last)


async def end_of_epoch(consumer: AIOKafkaConsumer, tp: TopicPartition, epoch: int) -> int | None:
    """Return where that epoch ends in the log now; None where the broker can't tell. Raises KafkaError."""
    client: Any = consumer._client  # noqa: SLF001
    leader = client.cluster.leader_for_partition(tp)
    try:
        if leader is None or leader < 0:
            raise LeaderNotAvailableError(f"{tp.topic}/{tp.partition}")
        answer: Any = await client.send(leader, _EndRequest(tp, epoch))
        rows = [row for topic, rows in answer.topics for row in rows if (topic, row[1]) == tp]
        if len(rows) != 1:
            raise UnknownError(f"the broker says nothing about {tp.topic}/{tp.partition}")
        ((code, _, _, end),) = rows
        if code:
            error: KafkaError = for_code(code)()
            raise error
    # Such a broker can't tell, and its logs are taken for what they were.
    except (IncompatibleBrokerVersion, NotImplementedError):  # before Kafka 2.1
        return None
    except KafkaError:
        client.force_metadata_update()  # the fetcher doesn't: what it has of the partition lies there
        raise
    return int(end) if end >= 0 else None


class _EndResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 23
    API_VERSION = 2
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_epoch", Int32),
                        ("end_offset", Int64),
                    ),
                ),
            ),
        ),
    )


class _EndStruct(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 23
    API_VERSION = 2
    RESPONSE_TYPE = _EndResponse
    SCHEMA = Schema(
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
                ),
            ),
        ),
    )


class _EndRequest(Request[_EndStruct]):  # type: ignore[misc]  # as above
    API_KEY = 23

    def __init__(self, tp: TopicPartition, epoch: int) -> None:
        self._tp, self._epoch = tp, epoch

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request, for the only version that we know."""
        return request_struct_class([(self._tp.topic, [(self._tp.partition, _UNKNOWN, self._epoch)])])
