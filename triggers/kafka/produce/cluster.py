"""A cluster that messages go to: topics in an outage, and how large batches may be."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.wire.produce import DeliveryReport, Outgoing, not_yet_written
from headrace.triggers.kafka.client.topics import unwritable_topics
from headrace.triggers.kafka.produce.faults import explained, why_away
from headrace.triggers.kafka.produce.packing import BatchLimits

logger = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 10.0
_MAX_LISTED = 5
_ANSWER_SECONDS = 5.0
_RETRY_SECONDS = 1.0
WHAT_WAITS = "messages wait, and no record that has produced one is committed"


class _Outage:
    """An outage of one topic, and when it is tried next."""

    def __init__(self) -> None:
        self.why = ""
        self.wait_seconds = 0.0
        self.due = 0.0  # on the event loop's clock
        self.is_over = asyncio.Event()


class Outages:
    """Outages of topics of one cluster, by which no record has failed.

    Each is logged once, and when it is over; whoever writes waits for the next try.
    """

    def __init__(self) -> None:
        self._away: dict[str, _Outage] = {}

    def __bool__(self) -> bool:
        return bool(self._away)

    def __contains__(self, topic: object) -> bool:
        return topic in self._away

    def begin(self, topic: str, why: str) -> None:
        """Note that a try has failed. Tries that were under way together count once."""
        outage, now = self._away.setdefault(topic, _Outage()), asyncio.get_running_loop().time()
        if why != outage.why:
            logger.warning("%s; %s; trying again", why, WHAT_WAITS)
            outage.why = why
        # Tries that were under way together fail together: they count once, or the wait would double for
        # each.
        if now >= outage.due:
            doubled = max(_FIRST_RETRY_SECONDS, 2 * outage.wait_seconds)
            outage.wait_seconds = min(doubled, _MAX_RETRY_SECONDS)
            outage.due = now + outage.wait_seconds

    def end(self, topic: str) -> None:
        """Note that the topic takes messages, or would."""
        if (outage := self._away.pop(topic, None)) is not None:
            # Whoever waits for the next try sends at once.
            outage.is_over.set()
            logger.info("topic %s takes messages now", topic)

    def is_due(self, topic: str) -> bool:
        """Whether it may be tried now."""
        outage = self._away.get(topic)
        return outage is None or asyncio.get_running_loop().time() >= outage.due

    def why(self, topic: str) -> str:
        """Return why nothing can be written to it; empty where it can."""
        outage = self._away.get(topic)
        return "" if outage is None else outage.why

    async def until_due(self, topic: str) -> None:
        """Wait until it may be tried, or is back."""
        if (outage := self._away.get(topic)) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(outage.due):
                    await outage.is_over.wait()

    def problems(self) -> list[str]:
        """Return one line for each outage, up to _MAX_LISTED."""
        lines = [outage.why for outage in self._away.values()]
        left = len(lines) - _MAX_LISTED
        return lines if left <= 0 else [*lines[:_MAX_LISTED], f"and {left} topics more"]


class OutputCluster:
    """The cluster's access, its topics' batch sizes, and their outages, for all who write to it."""

    def __init__(self, access: BrokerAccess) -> None:
        self.access = access
        self.limits = BatchLimits()
        self.outages = Outages()

    def fail(self, messages: Iterable[Outgoing], error: BaseException) -> None:
        """Fail the records of messages that can't be written."""
        for message, done in messages:
            done(DeliveryReport(failure=explained(error, message, self.access)))

    def on_topic_away(self, topic: str, error: BaseException) -> None:
        """Begin an outage: nothing can be written to the topic now, whatever the message."""
        self.outages.begin(topic, why_away(error, topic, self.access))

    def report_waiting(self, messages: Iterable[Outgoing]) -> None:
        """Tell messages that they wait: no record follows in their partitions meanwhile."""
        for message, done in messages:
            # It isn't an outcome: the message's partition waits behind it, and its worker has room again.
            done(not_yet_written(message))

    async def watch_at_start(self, admin: AIOKafkaAdminClient, topic: str) -> None:
        """Wait until `topic` can be written to; until then it is an outage. Done at once without a topic.

        For the topic that function.yaml names for results: a typo shows before a record needs it. Later on
        the messages for it tell.
        """
        while topic:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    away = await unwritable_topics(admin, [topic])
            except (KafkaError, TimeoutError) as error:
                logger.debug("whether %s can be written to isn't known yet (%r)", topic, error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if topic not in away:
                self.outages.end(topic)
                return
            self.on_topic_away(topic, away[topic])
            await self.outages.until_due(topic)
