"""A trigger's clients: their options, and waiting for a broker, visibly."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.runtime.kafka.connecting import connect_errors, start_client
from headrace.runtime.kafka.refusals import not_connected, refused, strangers
from headrace.triggers.kafka.client.errors import explain
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)
_RECONNECT_SECONDS = 2.0
_METADATA_MAX_AGE_SECONDS = 60.0


async def connect(
    settings: KafkaSettings, client_id: str, on_away: Callable[[str], None]
) -> tuple[AIOKafkaConsumer, AIOKafkaAdminClient]:
    """Return a consumer that has joined no group yet, and an admin client.

    A broker that doesn't answer is waited for, with an `on_away` each time, and a line whenever there is
    something else to say; what it refuses raises BrokerError.
    """
    access = settings.access
    common = {"client_id": client_id, **access.client_options()}
    said = ""
    while True:
        # New clients with each try: nothing of a start that has failed is used again.
        consumer = AIOKafkaConsumer(**common, **consumer_options(settings))
        admin = AIOKafkaAdminClient(**common)
        try:
            with connect_errors() as heard:
                await start_client(consumer)
                await start_client(admin)
        except BaseException as error:
            # Both, also where only one has started: what is left open would be logged as a leak.
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


def consumer_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return a consumer's arguments, all but where the brokers are and how to get in.

    Here a setting of function.yaml becomes one of aiokafka's.
    """
    return {
        # With the other protocol the group is ours, and the consumer only fetches.
        "group_id": settings.consumer_group if settings.group_protocol == "classic" else None,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",  # start positions are ours to decide, and resets ours to report
        "session_timeout_ms": _ms(settings.session_timeout_seconds),
        "heartbeat_interval_ms": _ms(settings.heartbeat_interval_seconds),
        "rebalance_timeout_ms": _ms(settings.rebalance_timeout_seconds),
        # A join is answered when the slowest member has joined: the request must outlast that.
        "request_timeout_ms": _ms(max(40.0, settings.rebalance_timeout_seconds + 5)),
        # Heartbeats end when the fetch loop has not turned for so long: it turns while all is well.
        "max_poll_interval_ms": _ms(settings.rebalance_timeout_seconds),
        "fetch_min_bytes": settings.fetch_min_bytes,
        "max_partition_fetch_bytes": settings.fetch_default_bytes,
        "fetch_max_wait_ms": _ms(settings.max_wait_time_seconds),
        "isolation_level": settings.isolation_level,
        "metadata_max_age_ms": _ms(_METADATA_MAX_AGE_SECONDS),
        "partition_assignment_strategy": (_assignor(settings.balance_strategy),),
    }


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _assignor(strategy: str) -> type[AbstractPartitionAssignor]:
    if strategy == "sticky":
        # aiokafka's keeps its memory on the class: two consumers in one process would share it.
        sticky: type[AbstractPartitionAssignor] = type("Sticky", (StickyPartitionAssignor,), {})
        return sticky
    assignors: dict[str, type[AbstractPartitionAssignor]] = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
    }
    return assignors[strategy]
