"""Fetch requests for no more than there is room for. Reaches into aiokafka's fetcher, pinned to 0.14.

By default a consumer asks for up to 50 MiB at a time, and has `fetchDefault` of each partition lie unread.
Where some have data that lie unread, it asks for the others alone, and for no more before these have some.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest

from headrace.triggers.kafka.client.fetch_budget import FetchBudget, RequestTerms

_SHARE = 4  # of the time that data have been here, that their next ones may come late

_Row = tuple[int, int, int]  # partition, offset, how many bytes


def limit(consumer: AIOKafkaConsumer, budget: FetchBudget) -> None:
    """Let `budget` decide which partitions each request is about, and how much its answer may bring.

    A broker whose request has to wait is asked once something was let go.
    """
    fetcher: Any = consumer._fetcher  # noqa: SLF001
    decide = fetcher._get_actions_per_node  # noqa: SLF001
    unread = _Unread(fetcher)
    loop = asyncio.get_running_loop()

    def ask_again() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: fetcher._notify(fetcher._wait_consume_future))  # noqa: SLF001

    def decide_within(assignment: Any) -> tuple[Any, ...]:
        requests, *others = decide(assignment)
        # The fetcher calls this whenever a request has ended, or data were read.
        budget.close_others(fetcher._in_flight)  # noqa: SLF001
        unread.look()
        granted = list(_granted(requests, budget, unread))
        # Some requests have to wait: the fetcher is woken once less is held.
        budget.on_let_go = ask_again if len(granted) < len(requests) else None
        return granted, *others

    fetcher._get_actions_per_node = decide_within  # noqa: SLF001


class _Unread:
    """Brokers whose data lie unread in the client, and for how long.

    A broker gets one request at a time. What that leaves out, as data of it lie unread or have no room, is
    asked for once it is answered: for others' data it must not wait much longer than that takes to be read.
    """

    def __init__(self, fetcher: Any) -> None:
        self._fetcher = fetcher
        self._unread: dict[int, float] = {}  # by node: when the last of what lies there came
        self._came_at: dict[int, float] = {}  # likewise, of all that ever lay there

    def look(self) -> None:
        """Note what lies unread now. To be called before requests are made."""
        self._unread.clear()
        for tp, found in self._fetcher._records.items():  # noqa: SLF001
            node = self._fetcher._select_read_replica(tp)  # noqa: SLF001
            self._unread[node] = max(found._created, self._unread.get(node, 0.0))  # noqa: SLF001
        self._came_at |= self._unread

    def wait_ms(self, node: int, most_ms: int, *, lacks_room: bool) -> int:
        """Return how long a request may wait at its broker that leaves unread partitions out.

        By how long their data have been here: what came just now is soon read, and what lies for long lies
        longer. `lacks_room`: it leaves out others, too, that have no room.
        """
        came_at = (self._came_at if lacks_room else self._unread).get(node, 0.0)
        return min(most_ms, 1 + int((time.monotonic() - came_at) * 1000 / _SHARE))


def _granted(
    requests: Sequence[tuple[int, Any]], budget: FetchBudget, unread: _Unread
) -> Iterator[tuple[int, FetchRequest]]:
    """Yield the requests that may be sent now, about the partitions that have room.

    Those that hold least come first.
    """
    for done, (node, request) in enumerate(requests):
        terms = budget.terms(node, len(requests) - done)
        if terms is None:
            continue
        asked_count = sum(len(rows) for _, rows in request.topics)
        topics = [(topic, _with_room(topic, rows, budget, terms)) for topic, rows in request.topics]
        topics = [(topic, rows) for topic, rows in topics if rows]
        if count := sum(len(rows) for _, rows in topics):
            max_bytes = budget.open(node, terms, count)
            most_ms = request._max_wait_ms  # noqa: SLF001
            yield (
                node,
                FetchRequest(
                    unread.wait_ms(node, most_ms, lacks_room=count < asked_count),
                    min(request._min_bytes, max_bytes),  # noqa: SLF001
                    max_bytes,
                    request._isolation_level,  # noqa: SLF001
                    topics,
                    rack_id=request._rack_id,  # noqa: SLF001
                ),
            )


def _with_room(topic: str, rows: Sequence[_Row], budget: FetchBudget, terms: RequestTerms) -> list[_Row]:
    held = [(budget.held_of((topic, number)), number, at) for number, at, _ in rows]
    fit = [row for row in held if terms.has_room(row[0]) or budget.needs_more((topic, row[1]))]
    # A broker fills its answer in the order of the request: whoever holds least comes first.
    fit.sort(key=itemgetter(0))  # the client has shuffled them
    return [(number, at, terms.limit_bytes) for _, number, at in fit]
