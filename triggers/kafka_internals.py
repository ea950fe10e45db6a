"""All that Headrace touches of aiokafka beyond its public API, pinned to 0.14 and tested one by one.

Each function says what happens without it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord


class Wanted(set[TopicPartition]):
    """The partitions to fetch from. True even when empty: to aiokafka an empty collection means all."""

    def __bool__(self) -> bool:
        """Always."""
        return True


async def fetch(
    consumer: AIOKafkaConsumer, wanted: Wanted, timeout_seconds: float, max_records: int
) -> Mapping[TopicPartition, Sequence[ConsumerRecord]]:
    """`getmany`, with a live set: partitions may be added while it waits, and `wake` makes it look again.

    The public one copies its partitions to a tuple, and searches that for each partition that has data.
    """
    consumer._coordinator.check_errors()  # noqa: SLF001
    with consumer._subscription.fetch_context():  # noqa: SLF001
        fetcher: Any = consumer._fetcher  # noqa: SLF001
        records: Mapping[TopicPartition, Sequence[ConsumerRecord]]
        records = await fetcher.fetched_records(wanted, timeout_seconds, max_records=max_records)
        return records


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
