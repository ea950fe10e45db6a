"""Waiting for a broker, visibly."""

import asyncio
import logging
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.runtime.kafka.connecting import connect_errors, start_client
from headrace.runtime.kafka.refusals import not_connected, refused, strangers
from headrace.triggers.kafka.client.errors import explain
from headrace.triggers.kafka.settings.client_options import consumer_options
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_RECONNECT_SECONDS = 2.0


async def connect(
    settings: KafkaSettings, client_id: str, on_away: Callable[[str], None]
) -> tuple[AIOKafkaConsumer, AIOKafkaAdminClient]:
    """A consumer that has joined no group yet, and an admin client.

    A broker that doesn't answer is waited for, with an `on_away` each time, and a line whenever there is
    something else to say; what it refuses raises BrokerError.
    """
    access = settings.access
    common = {"client_id": client_id, **access.client_options()}
    said = ""
    while True:
        consumer = AIOKafkaConsumer(**common, **consumer_options(settings))
        admin = AIOKafkaAdminClient(**common)
        try:
            with connect_errors() as heard:
                await start_client(consumer)
                await start_client(admin)
        except BaseException as error:
            await asyncio.gather(consumer.stop(), admin.close(), return_exceptions=True)
            if not isinstance(error, KafkaError):
                raise
            if not isinstance(error, KafkaConnectionError):
                raise explain(error, settings) from None
            if (why := refused(heard, access)) is not None:
                raise explain(why, settings) from None
            before, said = said, not_connected(heard, access, error)
            on_away(said)
            if said != before:
                logger.warning("%s; trying again every %g s", said, _RECONNECT_SECONDS)
            await asyncio.sleep(_RECONNECT_SECONDS)
        else:
            logger.info("connected to %s", access)
            for line in strangers(heard, access):
                logger.warning("%s; another address answers", line)
            return consumer, admin
