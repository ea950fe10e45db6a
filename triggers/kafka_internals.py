"""All that Headrace touches of aiokafka beyond its public API, pinned to 0.14 and tested one by one.

Each function says what happens without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import KafkaError, UnknownError, for_code
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import ConsumerRecord


class Wanted(set[TopicPartition]):
    """The partitions to fetch from. True even when empty: to aiokafka an empty collection means all."""

    def __bool__(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, slots=True)
class Commit:
    """What the broker holds for one partition of a group."""

    offset: int
    metadata: str


async def fetch(
    consumer: AIOKafkaConsumer, wanted: Wanted, timeout_seconds: float, max_records: int
) -> Mapping[TopicPartition, Sequence[ConsumerRecord]]:
    """`getmany`, with a live set: partitions may be added while it waits, and `wake` makes it look again.

    The public one copies its partitions to a tuple, and searches that for each partition that has data. It
    doesn't notice that the fetcher's task has died, and after one error idle members are no longer watched.

    After an error, positions may have moved past records that were not returned: seek before the next fetch.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    consumer._coordinator.check_errors()  # noqa: SLF001
    if fetcher._fetch_task.done():  # noqa: SLF001
        fetcher._fetch_task.result()  # noqa: SLF001
    # By hand, because aiokafka's has no `finally`.
    busy = consumer._subscription.fetch_context()  # noqa: SLF001
    busy.__enter__()
    try:
        records: Mapping[TopicPartition, Sequence[ConsumerRecord]]
        records = await fetcher.fetched_records(wanted, timeout_seconds, max_records=max_records)
        return records
    finally:
        busy.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The first record of a partition that can't be decoded."""

    tp: TopicPartition
    offset: int


def unreadable_record(error: BaseException) -> Unreadable | None:
    """What a fetch was decoding when it raised; None where it wasn't decoding."""
    tb = error.__traceback__
    while tb is not None:
        decoding = tb.tb_frame.f_locals.get("self")
        if isinstance(decoding, FetchResult):
            records: Any = decoding._partition_records  # noqa: SLF001
            return Unreadable(decoding._topic_partition, records.next_fetch_offset)  # noqa: SLF001
        tb = tb.tb_next
    return None


async def fetch_commits(
    admin: AIOKafkaAdminClient, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Commit]:
    """What the group has committed, of `partitions`; those without a commit are left out.

    The admin's own method takes an answer that is an error as a whole (coordinator moved, group loading) for
    "no commits", and the consumer's drops the metadata. Raises KafkaError.
    """
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    coordinator = await admin.find_coordinator(group)
    request = OffsetFetchRequest(group, list(by_topic.items()))
    response: Any = await admin._send_request(request, coordinator)  # noqa: SLF001
    _raise_for(getattr(response, "error_code", 0))
    commits = {}
    for topic, rows in response.topics:
        for partition, offset, metadata, error_code in rows:
            _raise_for(error_code)
            commits[TopicPartition(topic, partition)] = Commit(offset, metadata)
    if missing := set(partitions) - commits.keys():
        raise UnknownError(f"the broker says nothing about {len(missing)} partitions of group {group}")
    return {tp: commit for tp, commit in commits.items() if commit.offset >= 0}


def _raise_for(error_code: int) -> None:
    if error_code:
        error: KafkaError = for_code(error_code)()
        raise error


def wake(consumer: AIOKafkaConsumer | None) -> None:
    """Let a waiting `fetch` look at its partitions again. Without it they wait for the timeout."""
    if consumer is not None:
        fetcher: Any = consumer._fetcher  # noqa: SLF001
        for waiter in tuple(fetcher._fetch_waiters):  # noqa: SLF001
            fetcher._notify(waiter)  # noqa: SLF001


def tune(consumer: AIOKafkaConsumer, retry_seconds: float) -> None:
    """Two settings of the fetcher that the consumer doesn't offer.

    A partition whose data lies unread must not keep the others of its node from being fetched: by default
    the node is held back for 0.1 s, and pausing instead would throw the data away.
    After a failed fetch `retry_seconds` pass; by default what the coordinator waits, 0.1 s.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    fetcher._prefetch_backoff = 0.0  # noqa: SLF001
    fetcher._retry_backoff = retry_seconds  # noqa: SLF001


def generation(consumer: AIOKafkaConsumer) -> int:
    """The group generation that this member is in; below 0 once the membership is lost.

    A lost membership has no callback of its own: it comes as a revoke like any other.
    """
    return int(consumer._coordinator.generation)  # noqa: SLF001
