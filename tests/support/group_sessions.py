"""How long the sessions of one group are by the protocol `consumer`: the broker decides, and is told here."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import AlterConfigsRequest
from broker import Broker

_GROUP = 32
_HEARTBEATS = 5


def set_session(broker: Broker, group: str, seconds: float) -> None:
    """For this group alone. With or without a running loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _set(broker.bootstrap, group, seconds)).result()


async def _set(bootstrap: str, group: str, seconds: float) -> None:
    wanted = {
        "consumer.session.timeout.ms": str(round(seconds * 1000)),
        "consumer.heartbeat.interval.ms": str(round(seconds * 1000 / _HEARTBEATS)),
    }
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        response = await admin._send_request(AlterConfigsRequest([(_GROUP, group, list(wanted.items()))]))
        ((code, message, *_),) = response.resources
        assert code == 0, message
    finally:
        await admin.close()
