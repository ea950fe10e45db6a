"""Groups of the protocol `consumer`: how long sessions are in one, and an operator's hand on its members."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import AlterConfigsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Schema, String
from broker import Broker

_GROUP = 32
_HEARTBEATS = 5
_MEMBERS = (("member_id", String("utf-8")), ("instance_id", String("utf-8")))


def set_session(broker: Broker, group: str, seconds: float) -> None:
    """For this group alone: the broker decides, and is told here. With or without a running loop."""
    _run(_set(broker.bootstrap, group, seconds))


def remove_static_member(broker: Broker, group: str, instance_id: str) -> None:
    """As an operator does by Kafka's admin client. With or without a running loop."""
    _run(_remove(broker.bootstrap, group, instance_id))


def _run(work: Coroutine[Any, Any, None]) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


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


async def _remove(bootstrap: str, group: str, instance_id: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        node = await admin.find_coordinator(group)
        response: Any = await admin._send_request(_LeaveRequest(group, instance_id), node)
        ((*_, code),) = response.members
        assert (response.error_code, code) == (0, 0)
    finally:
        await admin.close()


class _LeaveResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 13
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("members", Array(*_MEMBERS, ("error_code", Int16))),
    )


class _LeaveStruct(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 13
    API_VERSION = 3
    RESPONSE_TYPE = _LeaveResponse
    SCHEMA = Schema(("group_id", String("utf-8")), ("members", Array(*_MEMBERS)))


class _LeaveRequest(Request[_LeaveStruct]):  # type: ignore[misc]  # as above
    """Of one static member, whatever its member id is. aiokafka's leaves by member id only."""

    API_KEY = 13

    def __init__(self, group: str, instance_id: str) -> None:
        self._group, self._instance_id = group, instance_id

    def build(self, request_struct_class: type[Any]) -> Any:
        return request_struct_class(self._group, [("", self._instance_id)])
