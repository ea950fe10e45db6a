"""What is known of a cluster that is written to, for all who write to it."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.partitions.offsets.pending_produces import DeliveryReport, Outgoing, not_yet_written
from headrace.triggers.kafka.client.topics import unwritable_topics
from headrace.triggers.kafka.produce.faults import explained, why_away
from headrace.triggers.kafka.produce.packing import BatchLimits

logger = logging.getLogger(__name__)


_FIRST_RETRY_SECONDS = 1.0


_MAX_RETRY_SECONDS = 10.0


_MOST_LISTED = 5


WHAT_WAITS = "messages wait, and no record that has produced one is committed"


class _Outage:
    def __init__(self) -> None:
        self.why = ""
        self.wait_seconds = 0.0
        self.due = 0.0  # on the event loop's clock
        self.is_over = asyncio.Event()


class Outages:
    """Of one cluster. Each is said once, and when it is over; whoever writes waits for the next try."""

    def __init__(self) -> None:
        self._away: dict[str, _Outage] = {}

    def __bool__(self) -> bool:
        return bool(self._away)

    def __contains__(self, topic: object) -> bool:
        return topic in self._away

    def begin(self, topic: str, why: str) -> None:
        """It was tried. Those that were under way together count once."""
        outage, now = self._away.setdefault(topic, _Outage()), asyncio.get_running_loop().time()
        if why != outage.why:
            logger.warning("%s; %s; trying again", why, WHAT_WAITS)
            outage.why = why
        if now >= outage.due:
            doubled = max(_FIRST_RETRY_SECONDS, 2 * outage.wait_seconds)
            outage.wait_seconds = min(doubled, _MAX_RETRY_SECONDS)
            outage.due = now + outage.wait_seconds

    def end(self, topic: str) -> None:
        """It takes messages, or would. Nothing where it was never away."""
        if (outage := self._away.pop(topic, None)) is not None:
            outage.is_over.set()
            logger.info("topic %s takes messages now", topic)

    def is_due(self, topic: str) -> bool:
        """Whether it may be tried now."""
        outage = self._away.get(topic)
        return outage is None or asyncio.get_running_loop().time() >= outage.due

    def why(self, topic: str) -> str:
        """It is away; empty where it isn't."""
        outage = self._away.get(topic)
        return "" if outage is None else outage.why

    async def until_due(self, topic: str) -> None:
        """Wait until it may be tried, or is back."""
        if (outage := self._away.get(topic)) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(outage.due):
                    await outage.is_over.wait()

    def problems(self) -> list[str]:
        """One line each, as far as they aren't too many."""
        lines = [outage.why for outage in self._away.values()]
        left = len(lines) - _MOST_LISTED
        return lines if left <= 0 else [*lines[:_MOST_LISTED], f"and {left} topics more"]


class OutputCluster:
    """How to reach it, how large its topics' batches may be, and which topics can't be written to now."""

    def __init__(self, access: BrokerAccess) -> None:
        self.access = access
        self.limits = BatchLimits()
        self.outages = Outages()

    def fail(self, messages: Iterable[Outgoing], error: BaseException) -> None:
        """They can't be written: their records have failed."""
        for message, done in messages:
            done(DeliveryReport(failure=explained(error, message, self.access)))

    def on_away(self, topic: str, error: BaseException) -> None:
        """Nothing can be written to it now, whatever the message."""
        self.outages.begin(topic, why_away(error, topic, self.access))

    def wait(self, messages: Iterable[Outgoing]) -> None:
        """Say that nothing can be written where they go: no record follows in their partitions meanwhile."""
        for message, done in messages:
            done(not_yet_written(message))


_ANSWER_SECONDS = 5.0


_RETRY_SECONDS = 1.0


async def watch_at_start(admin: AIOKafkaAdminClient, topic: str, cluster: OutputCluster) -> None:
    """Return once it could be written to; until then it is an outage. Nothing to do without a topic.

    From then on its messages say it.
    """
    while topic:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                away = await unwritable_topics(admin, [topic])
        except (KafkaError, TimeoutError) as unheard:
            logger.debug("whether %s can be written to isn't known yet (%r)", topic, unheard)
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        if topic not in away:
            cluster.outages.end(topic)
            return
        cluster.on_away(topic, away[topic])
        await cluster.outages.until_due(topic)
