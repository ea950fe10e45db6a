"""Waiting for a broker and for topics, visibly."""

import asyncio
import logging

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.runtime.kafka.connect_errors import connect_errors
from headrace.runtime.kafka.refusals import REFUSALS, no_answer
from headrace.triggers.kafka.client.errors import explain
from headrace.triggers.kafka.client.topics import describe_topics
from headrace.triggers.kafka.settings.client_options import consumer_options
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_RECONNECT_SECONDS = 2.0
_TOPIC_POLL_SECONDS = 1.0


async def connect(settings: KafkaSettings, client_id: str) -> tuple[AIOKafkaConsumer, AIOKafkaAdminClient]:
    """A consumer that has joined no group yet, and an admin client.

    A broker that doesn't answer is waited for, with a line each time; what it refuses raises BrokerError.
    """
    access = settings.access
    common = {"client_id": client_id, **access.client_options()}
    while True:
        consumer = AIOKafkaConsumer(**common, **consumer_options(settings))
        admin = AIOKafkaAdminClient(**common)
        try:
            with connect_errors() as heard:
                await consumer.start()
                await admin.start()
        except BaseException as error:
            await asyncio.gather(consumer.stop(), admin.close(), return_exceptions=True)
            if not isinstance(error, KafkaError):
                raise
            if not isinstance(error, KafkaConnectionError):
                raise explain(error, settings) from None
            if isinstance(heard.last, REFUSALS):
                raise explain(heard.last, settings) from None
            cause = heard.last or error
            logger.warning("%s (%s); trying again in %g s", no_answer(access), cause, _RECONNECT_SECONDS)
            await asyncio.sleep(_RECONNECT_SECONDS)
        else:
            logger.info("connected to %s", access)
            return consumer, admin


async def wait_for_topics(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> None:
    """Until one of the topics exists; later ones are noticed by the consumer."""
    said = ""
    while True:
        try:
            missing = set(settings.topics) - set(await describe_topics(admin, settings.topics))
            names = ", ".join(sorted(missing))
            advice = f"headrace kafka topics --create NAME:PARTITIONS makes one{settings.access.or_hidden}"
            line = f"no such topic: {names} ({advice})"
        except KafkaError as error:
            missing = set(settings.topics)
            line = f"the broker does not say which topics there are ({error!r}); trying again"
        if missing and line != said:
            logger.warning("%s", line)
            said = line
        if len(missing) < len(settings.topics):
            return
        await asyncio.sleep(_TOPIC_POLL_SECONDS)
