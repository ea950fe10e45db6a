"""Records out of aiokafka's fetcher, with a limit for each partition. Reaches into it, pinned to 0.14."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.structs import ConsumerRecord

Records: TypeAlias = Mapping[TopicPartition, Sequence[ConsumerRecord]]


class PartitionsToFetch(set[TopicPartition]):
    """Partitions to fetch from. True even when empty: to aiokafka an empty collection means all."""

    def __bool__(self) -> bool:
        """Return True always."""
        return True


async def fetch(
    consumer: AIOKafkaConsumer,
    partitions: PartitionsToFetch,
    timeout_seconds: float,
    max_records: int,
    limit_of: Callable[[TopicPartition], int] = lambda _: sys.maxsize,
) -> Records:
    """Return records like `getmany`, of a live set of partitions, and at most `limit_of` each.

    Partitions may be added while it waits. Empty after `timeout_seconds`, and after anything came or `wake`
    was called while it waited: what to ask for may be different then.

    The public one copies its partitions to a tuple, and searches that for each partition that has data. It
    limits a fetch as a whole, so the smallest room would limit all partitions. It doesn't notice that the
    fetcher's task has died, and after one error idle members are no longer watched.

    After an error, positions may have moved past records that were not returned: seek before the next fetch.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    consumer._coordinator.check_errors()  # noqa: SLF001
    # The task has died: its error would never come out of the public method.
    if fetcher._fetch_task.done():  # noqa: SLF001
        fetcher._fetch_task.result()  # noqa: SLF001
    # By hand, because aiokafka's has no `finally`.
    context = consumer._subscription.fetch_context()  # noqa: SLF001
    context.__enter__()
    try:
        if fetcher._subscriptions.reassignment_in_progress:  # noqa: SLF001
            await fetcher._subscriptions.wait_for_assignment()  # noqa: SLF001
        records = _drain(fetcher, partitions, max_records, limit_of)
        if not records:
            await _wait_for_data(fetcher._create_fetch_waiter(), timeout_seconds)  # noqa: SLF001
        return records
    finally:
        context.__exit__(None, None, None)


def wake(consumer: AIOKafkaConsumer | None) -> None:
    """Let a waiting `fetch` return, to be asked anew. Without it partitions wait for the timeout."""
    if consumer is not None:
        fetcher: Any = consumer._fetcher  # noqa: SLF001
        for waiter in tuple(fetcher._fetch_waiters):  # noqa: SLF001
            fetcher._notify(waiter)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The first record of a partition that can't be decoded."""

    tp: TopicPartition
    offset: int


def unreadable_record(error: BaseException) -> Unreadable | None:
    """Return the record that a fetch was decoding when it raised; None where it wasn't decoding."""
    tb = error.__traceback__
    while tb is not None:
        decoding = tb.tb_frame.f_locals.get("self")
        if isinstance(decoding, FetchResult):
            records: Any = decoding._partition_records  # noqa: SLF001
            return Unreadable(decoding._topic_partition, records.next_fetch_offset)  # noqa: SLF001
        tb = tb.tb_next
    return None


def _drain(
    fetcher: Any, partitions: PartitionsToFetch, max_records: int, limit_of: Callable[[TopicPartition], int]
) -> dict[TopicPartition, Sequence[ConsumerRecord]]:
    """Take records like `Fetcher.fetched_records`, without its wait, and with `limit_of`."""
    fetched = fetcher._records  # noqa: SLF001
    drained: dict[TopicPartition, Sequence[ConsumerRecord]] = {}
    for tp in list(fetched):
        if tp not in partitions:
            # Left undrained, it stays for later. What nobody has any more is dropped.
            if not fetcher._subscriptions.is_assigned(tp):  # noqa: SLF001
                del fetched[tp]
            continue
        result = fetched[tp]
        if not isinstance(result, FetchResult):
            if not drained:  # else by the next call
                _forget(fetcher, tp)
                result.check_raise()
            break
        limit = min(max_records, limit_of(tp))
        records = result.getall(limit) if limit > 0 else ()
        if not result.has_more():
            _forget(fetcher, tp)
        if records:
            drained[tp] = records
            max_records -= len(records)
            if not max_records:
                break
    return drained


def _forget(fetcher: Any, tp: TopicPartition) -> None:
    """Have the partition asked for again."""
    del fetcher._records[tp]  # noqa: SLF001
    fetcher._notify(fetcher._wait_consume_future)  # noqa: SLF001


async def _wait_for_data(waiter: asyncio.Future[None], timeout_seconds: float) -> None:
    """Wait for data, or until `timeout_seconds` are over. Raises what the fetcher was refused.

    `asyncio.wait` would take records another turn of the loop.
    """
    timer = asyncio.get_running_loop().call_later(timeout_seconds, _end_wait, waiter)
    try:
        await waiter
    finally:
        timer.cancel()


def _end_wait(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
