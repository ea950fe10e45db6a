"""How long a broker keeps the commits of a group in which nobody is."""

import asyncio
import logging

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.runtime.kafka.configs import read_config
from headrace.triggers.kafka.settings.model import KafkaSettings

logger = logging.getLogger(__name__)

_RETENTION = "offsets.retention.minutes"
_ANSWER_SECONDS = 3.0


async def log_commit_expiry(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> None:
    """Say once what a long stop does where initialOffset is latest.

    Once they are gone nobody can tell: the group is as if it had never been.
    """
    if settings.initial_offset != "latest":
        return
    retention = await _retention(admin)
    logger.info(
        "initialOffset is latest: if group %s is left by all for longer than the broker's %s%s, its commits "
        "are gone, and what came meanwhile is skipped",
        settings.consumer_group,
        _RETENTION,
        f" ({retention})" if retention else "",
    )


async def _retention(admin: AIOKafkaAdminClient) -> str:
    """As one broker says it; empty where this user may not ask, or nobody answers."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            broker = next(iter(admin._client.cluster.brokers()))  # noqa: SLF001  # describe_cluster asks for all topics
            return (await read_config(admin, "broker", str(broker.nodeId))).get(_RETENTION, "")
    except (KafkaError, TimeoutError, StopIteration):
        return ""
