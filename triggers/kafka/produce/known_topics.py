"""The topic that function.yaml names for results: whether it can be written to, before a record needs it."""

import asyncio
import logging

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.triggers.kafka.client.topics import unwritable_topics
from headrace.triggers.kafka.produce.cluster import OutputCluster

logger = logging.getLogger(__name__)

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
