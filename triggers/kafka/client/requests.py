"""Fetch requests for no more than there is room for. Reaches into aiokafka's fetcher, pinned to 0.14.

By default a consumer asks for up to 50 MiB at a time, and has `fetchDefault` of each partition lie unread.
"""

import asyncio
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest

from headrace.triggers.kafka.client.budget import Budget, Terms

_Row = tuple[int, int, int]  # partition, offset, how many bytes


def limit(consumer: AIOKafkaConsumer, budget: Budget) -> None:
    """Let `budget` decide which partitions each request is about, and how much its answer may bring.

    A broker whose request has to wait is asked once something was let go.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    decide = fetcher._get_actions_per_node  # noqa: SLF001
    loop = asyncio.get_running_loop()

    def ask_again() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: fetcher._notify(fetcher._wait_consume_future))  # noqa: SLF001

    def decide_within(assignment: Any) -> tuple[Any, ...]:
        requests, *others = decide(assignment)
        budget.close_others(fetcher._in_flight)  # noqa: SLF001
        granted = list(_granted(requests, budget))
        budget.on_let_go = ask_again if len(granted) < len(requests) else None
        return granted, *others

    fetcher._get_actions_per_node = decide_within  # noqa: SLF001


def _granted(requests: Sequence[tuple[int, Any]], budget: Budget) -> Iterator[tuple[int, FetchRequest]]:
    """Those that may be sent now, about the partitions that have room: first those that hold least."""
    for done, (node, request) in enumerate(requests):
        terms = budget.terms(node, len(requests) - done)
        if terms is None:
            continue
        topics = [(topic, _with_room(topic, rows, budget, terms)) for topic, rows in request.topics]
        topics = [(topic, rows) for topic, rows in topics if rows]
        if count := sum(len(rows) for _, rows in topics):
            max_bytes = budget.open(node, terms, count)
            yield (
                node,
                FetchRequest(
                    request._max_wait_ms,  # noqa: SLF001
                    min(request._min_bytes, max_bytes),  # noqa: SLF001
                    max_bytes,
                    request._isolation_level,  # noqa: SLF001
                    topics,
                    rack_id=request._rack_id,  # noqa: SLF001
                ),
            )


def _with_room(topic: str, rows: Sequence[_Row], budget: Budget, terms: Terms) -> list[_Row]:
    held = [(budget.held_of((topic, number)), number, at) for number, at, _ in rows]
    fit = [row for row in held if terms.has_room(row[0]) or budget.needs_more((topic, row[1]))]
    fit.sort(key=itemgetter(0))  # the client has shuffled them
    return [(number, at, terms.limit_bytes) for _, number, at in fit]
