"""A broker that lets a user do only what it is told to."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest
from broker import embedded

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.guards import Guards
from headrace.runtime.embedded.kafka.properties import broker_settings, write_properties

USER, PASSWORD = "ada", "secret"
_ALLOWED, _LITERAL = 3, 3
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Kind(IntEnum):
    """By the protocol's numbers, as the next."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class May(IntEnum):
    """Kafka's operations."""

    READ = 3
    WRITE = 4
    DESCRIBE = 8


@dataclass(frozen=True)
class Rules:
    """Whoever signs in as USER may do what is allowed here; the plain listener may do all."""

    kafka: EmbeddedKafka

    def allow(self, kind: Kind, name: str, may: May) -> None:
        self._ask(CreateAclsRequest, kind, name, may)

    def forbid(self, kind: Kind, name: str, may: May) -> None:
        """What was allowed."""
        self._ask(DeleteAclsRequest, kind, name, may)

    def _ask(self, request: type, kind: Kind, name: str, may: May) -> None:
        async def ask() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka.bootstrap)
            await admin.start()
            try:
                rule = (int(kind), name, _LITERAL, f"User:{USER}", "*", int(may), _ALLOWED)
                await admin._send_to_controller(request(*rule))
            finally:
                await admin.close()

        asyncio.run(ask())


@contextmanager
def ruled(**topics: int) -> Iterator[Rules]:
    """Such a broker, with topics of so many partitions."""
    guards = Guards({USER: PASSWORD})
    with embedded(guards, **topics) as kafka:
        folder = kafka._folder.path
        assert folder is not None
        write_properties(folder / "broker.properties", broker_settings(kafka._ports, guards) | _AUTHORIZER)
        asyncio.run(kafka.restart())
        yield Rules(kafka)
