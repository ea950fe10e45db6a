"""Which topics a trigger reads: those that it names, and those that match topicPattern, as these come."""

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
_LOOK_SECONDS = 5.0
_UNSAID = "the broker does not say which topics there are (%r); trying again"


class TopicSubscription:
    """Lists them every `topicRefresh`, at most every `pollInterval`: what has changed is one rebalance."""

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
        self._missed: set[str] = set()
        self._said = ""

    async def subscribe(self) -> None:
        """Join the group once there is a topic to read; later ones are noticed by themselves."""
        hurry_topics(self._consumer)
        while not (topics := await self._first()):  # noqa: ASYNC110  # the broker tells nobody
            await asyncio.sleep(_WAIT_SECONDS)
        self._membership.subscribe(topics)

    async def follow_forever(self) -> None:
        """What the broker doesn't say, or the group has no time for, is asked again."""
        settings = self._settings
        while settings.topic_pattern:
            await asyncio.sleep(max(settings.topic_refresh_seconds, settings.poll_interval_seconds))
            try:
                while not self._follow(await self._wanted()):  # noqa: ASYNC110  # nor does the client
                    await asyncio.sleep(_WAIT_SECONDS)
            except KafkaError as error:
                self._say(_UNSAID, error)

    async def look(self) -> None:
        """Once more, amid a rebalance: all members join with what is there now, and need no other one."""
        if self._settings.topic_pattern:
            with contextlib.suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    self._follow(await self._wanted())

    def _follow(self, now: set[str]) -> bool:
        """Whether all is said: not what is missing for the first time, or what nobody can be told now."""
        self._said = ""
        before = set(self._consumer.subscription())
        missed, self._missed = self._missed, before - now
        if self._missed - missed:
            return False  # a broker may lag behind: another answer has to say the same
        if now == before:
            return True
        if not self._membership.resubscribe(now):
            return False
        for names, how in ((now - before, "reads"), (before - now, "no longer reads")):
            if names:
                logger.info("%s %s, by topicPattern", how, ", ".join(sorted(names)))
        return True

    async def _wanted(self) -> set[str]:
        """Named topics are among them whether they are there or not. Raises KafkaError."""
        listed = await list_topics(self._admin) if self._settings.topic_pattern else ()
        return {*self._settings.topics, *filter(self._settings.matches, listed)}

    async def _first(self) -> set[str]:
        """What there is to read, once one of them is there."""
        settings = self._settings
        try:
            wanted = await self._wanted()
            found = await describe_topics(self._admin, wanted) if wanted else {}
        except KafkaError as error:
            self._say(_UNSAID, error)
            return set()
        if missing := ", ".join(sorted(set(settings.topics) - set(found))):
            advice = f"headrace kafka topics --create NAME:PARTITIONS makes one{settings.access.or_hidden}"
            self._say("no such topic: %s (%s)", missing, advice)
        elif not found:
            self._say("no topic matches %s yet", settings.topic_pattern)
        return wanted if found else set()

    def _say(self, line: str, *about: object) -> None:
        """Once, until there is something else to say."""
        said = line % about
        if said != self._said:
            logger.warning("%s", said)
            self._said = said
