"""The topics that a trigger reads: those that it names, and those that match topicPattern, as these come."""

import asyncio
import contextlib
import logging

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.triggers.kafka.client.subscriptions import hurry_topics
from headrace.triggers.kafka.client.topics import describe_topics, list_topics
from headrace.triggers.kafka.group.membership import GroupMembership
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 1.0
_REFRESH_SECONDS = 5.0
_UNANSWERED = "the broker does not say which topics there are (%r); trying again"


class TopicSubscription:
    """The subscription of one trigger, kept up to date.

    Topics are listed every `topicRefresh`, at most every `pollInterval`: what has changed is one rebalance.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        admin: AIOKafkaAdminClient,
        settings: KafkaSettings,
        membership: GroupMembership,
    ) -> None:
        self._consumer = consumer
        self._admin = admin
        self._settings = settings
        self._membership = membership
        self._missing: set[str] = set()
        self._last_warning = ""

    async def subscribe(self) -> None:
        """Join the group once there is a topic to read; later ones are noticed by themselves."""
        # Before the first join: whoever waits for metadata of new topics would wait for a minute.
        hurry_topics(self._consumer)
        while not (topics := await self._first_topics()):  # noqa: ASYNC110  # the broker tells nobody
            await asyncio.sleep(_WAIT_SECONDS)
        self._membership.subscribe(topics)

    async def follow_forever(self) -> None:
        """Follow topicPattern. What the broker doesn't say is asked again.

        So is what the group has no time for.
        """
        settings = self._settings
        while settings.topic_pattern:
            await asyncio.sleep(max(settings.topic_refresh_seconds, settings.poll_interval_seconds))
            try:
                while not self._apply(await self._topics_to_read()):  # noqa: ASYNC110  # nor does the client
                    await asyncio.sleep(_WAIT_SECONDS)
            except KafkaError as error:
                self._warn_once(_UNANSWERED, error)

    async def refresh(self) -> None:
        """List topics amid a rebalance: all members join with what is there now, and need no other one."""
        if self._settings.topic_pattern:
            with contextlib.suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):
                    self._apply(await self._topics_to_read())

    def _apply(self, now: set[str]) -> bool:
        """Subscribe to `now`. Return whether that is settled.

        It isn't where a topic is missing for the first time, or the group can't be told now.
        """
        self._last_warning = ""
        before = set(self._consumer.subscription())
        # A topic that is missing once may be one that the asked broker doesn't know yet.
        missed, self._missing = self._missing, before - now
        if self._missing - missed:
            return False  # a broker may lag behind: another answer has to say the same
        if now == before:
            return True
        # Amid a join: it is tried again a second later.
        if not self._membership.resubscribe(now):
            return False
        for names, how in ((now - before, "reads"), (before - now, "no longer reads")):
            if names:
                logger.info("%s %s, by topicPattern", how, ", ".join(sorted(names)))
        return True

    async def _topics_to_read(self) -> set[str]:
        """Return the topics to read, named ones whether they exist or not. Raises KafkaError."""
        listed = await list_topics(self._admin) if self._settings.topic_pattern else ()
        return {*self._settings.topics, *filter(self._settings.matches, listed)}

    async def _first_topics(self) -> set[str]:
        """Return the topics to read, once one of them exists; until then nothing."""
        settings = self._settings
        try:
            wanted = await self._topics_to_read()
            found = await describe_topics(self._admin, wanted) if wanted else {}
        except KafkaError as error:
            self._warn_once(_UNANSWERED, error)
            return set()
        if missing := ", ".join(sorted(set(settings.topics) - set(found))):
            advice = f"headrace kafka topics --create NAME:PARTITIONS makes one{settings.access.or_hidden}"
            self._warn_once("no such topic: %s (%s)", missing, advice)
        elif not found:
            self._warn_once("no topic matches %s yet", settings.topic_pattern)
        return wanted if found else set()

    def _warn_once(self, line: str, *about: object) -> None:
        """Log a warning unless it was the last one."""
        said = line % about
        if said != self._last_warning:
            logger.warning("%s", said)
            self._last_warning = said
