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
    """A client of the coordinator, over the admin client's second connection to that broker.

    It doesn't wait behind other questions there.
    """

    def __init__(self, admin: AIOKafkaAdminClient, group: str) -> None:
        self._client: Any = admin._client  # noqa: SLF001  # the admin client has no way to say which connection
        self._group = group
        self._node: int | None = None

    async def send(self, request: object) -> Any:
        """Send, and return the answer. Raises KafkaError; after it the coordinator is looked for again."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                try:
                    return await self._send_once(request)
                except KafkaConnectionError:  # a broker may end a connection as it likes
                    return await self._send_once(request)
        except TimeoutError as error:
            # Requests on a connection are answered in order: the next one would wait behind what isn't
            # answered.
            self._close_connection()
            raise RequestTimedOutError(f"no answer within {_ANSWER_SECONDS:g} s") from error
        except KafkaError:
            self.forget()
            raise

    async def _send_once(self, request: object) -> Any:
        if self._node is None:
            # Kept only once the client knows the broker: a coordinator that has just come up may be new to
            # it.
            found = await self._client.coordinator_lookup(CoordinationType.GROUP, self._group)
            await self._ready(found)
            self._node = found
        return await self._client.send(self._node, request, group=ConnectionGroup.COORDINATION)

    async def ask_in_background(self, request: object) -> Any:
        """Ask what no member depends on: behind other questions, once. Raises KafkaError."""
        if self._node is None:
            raise NodeNotReadyError("the coordinator isn't known now")
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await self._client.send(self._node, request)

    def forget(self) -> None:
        """Look for the coordinator again: it may be another broker by now."""
        self._node = None

    async def session_seconds(self) -> float | None:
        """Return how long it waits for a silent member; None where this user may not know.

        Raises KafkaError.
        """
        request = DescribeConfigsRequest([(_GROUP, self._group, [_SESSION])], False)
        async with asyncio.timeout(_ANSWER_SECONDS):
            response = await self._client.send(self._client.get_random_node(), request)
        for error_code, _, _, _, entries in response.resources:
            for name, value, *_ in entries:
                if not error_code and name == _SESSION and str(value).isdecimal():
                    return int(value) / 1000
        return None

    async def _ready(self, node: int) -> None:
        """Have the client know the broker: one that has just come may not be known yet."""
        if self._client.cluster.broker_metadata(node) is None:
            await self._client.force_metadata_update()

    def _close_connection(self) -> None:
        """Close the connection: whoever asks next would wait behind what isn't answered."""
        connection = self._client._conns.get((self._node, ConnectionGroup.COORDINATION))  # noqa: SLF001
        if connection is not None:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        self.forget()
