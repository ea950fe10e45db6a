"""What a user of the guarded broker may do with the topics of a test."""

import asyncio
import uuid
from dataclasses import dataclass, field
from enum import IntEnum

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest
from broker import Broker
from servers import RULED_USERS, USERS, GuardedBroker

_ALLOWED, _LITERAL = 3, 3


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
    """The user may do what is allowed here; the plain listener may do all."""

    kafka: GuardedBroker
    topic: str = field(default_factory=lambda: f"records-{uuid.uuid4().hex[:8]}")
    user: str = RULED_USERS[0]

    @property
    def password(self) -> str:
        return USERS[self.user]

    @property
    def sasl(self) -> dict[str, object]:
        """What signs the user in."""
        return {"enable": True, "user": self.user, "password": self.password, "mechanism": "PLAIN"}

    @property
    def plain(self) -> Broker:
        """Where all may be done."""
        return self.kafka.plain

    @property
    def group(self) -> str:
        """Of a function that reads the topic."""
        return f"group-{self.topic}"

    @property
    def dead(self) -> str:
        """Another topic."""
        return f"dead-{self.topic}"

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
                rule = (int(kind), name, _LITERAL, f"User:{self.user}", "*", int(may), _ALLOWED)
                await admin._send_to_controller(request(*rule))
            finally:
                await admin.close()

        asyncio.run(ask())
