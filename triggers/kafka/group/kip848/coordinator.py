"""The coordinator of a group, over a connection of its own: found, asked, and found again where it moves."""

import asyncio
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.conn import CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, RequestTimedOutError
from aiokafka.protocol.admin import DescribeConfigsRequest

_ANSWER_SECONDS = 5.0
_GROUP = 32
"""A group, as a resource that has settings."""
_SESSION = "consumer.session.timeout.ms"


class Coordinator:
    """Asked over the admin client's second connection to that broker: not behind other questions."""

    def __init__(self, admin: AIOKafkaAdminClient, group: str) -> None:
        self._client: Any = admin._client  # noqa: SLF001  # the admin client has no way to say which connection
        self._group = group
        self._node: int | None = None

    async def send(self, request: object) -> Any:
        """Its answer. Raises KafkaError; what breaks off on the way has it looked for again."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                try:
                    return await self._sent(request)
                except KafkaConnectionError:  # a broker may end a connection as it likes
                    return await self._sent(request)
        except TimeoutError as error:
            self._hang_up()
            raise RequestTimedOutError(f"no answer within {_ANSWER_SECONDS:g} s") from error
        except KafkaError:
            self.forget()
            raise

    async def _sent(self, request: object) -> Any:
        if self._node is None:
            found = await self._client.coordinator_lookup(CoordinationType.GROUP, self._group)
            await self._ready(found)
            self._node = found
        return await self._client.send(self._node, request, group=ConnectionGroup.COORDINATION)

    async def ask_aside(self, request: object) -> Any:
        """What no member depends on: behind other questions, and not tried again. Raises KafkaError."""
        if self._node is None:
            raise NodeNotReadyError("the coordinator isn't known now")
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await self._client.send(self._node, request)

    def forget(self) -> None:
        """It may be another broker by now."""
        self._node = None

    async def session_seconds(self) -> float | None:
        """How long it waits for a silent member; None where this user may not know. Raises KafkaError."""
        request = DescribeConfigsRequest([(_GROUP, self._group, [_SESSION])], False)
        async with asyncio.timeout(_ANSWER_SECONDS):
            response = await self._client.send(self._client.get_random_node(), request)
        for error_code, _, _, _, entries in response.resources:
            for name, value, *_ in entries:
                if not error_code and name == _SESSION and str(value).isdecimal():
                    return int(value) / 1000
        return None

    async def _ready(self, node: int) -> None:
        """A broker that has just come may not be known yet."""
        if self._client.cluster.broker_metadata(node) is None:
            await self._client.force_metadata_update()

    def _hang_up(self) -> None:
        """Whoever asks next would wait behind what isn't answered."""
        connection = self._client._conns.get((self._node, ConnectionGroup.COORDINATION))  # noqa: SLF001
        if connection is not None:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        self.forget()
