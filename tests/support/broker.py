"""The broker that tests talk to: one given by the environment, Docker's, or the embedded one."""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiokafka.admin import AIOKafkaAdminClient

from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.security import BrokerSecurity
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.topics import create_topics

NO_SECURITY = BrokerSecurity()


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker is (host:port), and which of the three kinds it is. Bound to no event loop."""

    bootstrap: str
    kind: str

    def create_topic(self, partitions: int = 8) -> str:
        """A new topic's name. May be called with or without a running loop: blocks about 50 ms."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int = 8) -> None:
        """A topic of this name, where there is none. Blocks as above."""
        with ThreadPoolExecutor(1) as thread:
            topics = create_topics(BrokerAccess(self.bootstrap), {name: partitions})
            thread.submit(asyncio.run, topics).result()

    def delete(self, name: str) -> None:
        """The broker doesn't have it any more: it may be created again."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _delete(self.bootstrap, name)).result()


async def _delete(bootstrap: str, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([name])
        while (await admin.describe_topics([name]))[0]["error_code"] == 0:  # it tells nobody
            await asyncio.sleep(0.01)
    finally:
        await admin.close()


@asynccontextmanager
async def any_broker() -> AsyncIterator[Broker]:
    """HEADRACE_TEST_BROKERS, then testcontainers where a Docker engine answers, then our own."""
    given = os.environ.get("HEADRACE_TEST_BROKERS")
    if given:
        yield Broker(given, "given")
    elif _docker_answers():
        with _container() as broker:
            yield broker
    else:
        async with EmbeddedKafka() as kafka:
            yield Broker(kafka.bootstrap, "embedded")
            kafka.kill()  # a stop waits for it to put in order what nobody looks at


def _docker_answers() -> bool:
    """Asked by hand: Docker's own client leaks its socket where no engine listens."""
    where = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    unix = where.scheme == "unix"
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as link, suppress(OSError):
        link.settimeout(2)
        link.connect(where.path if unix else (where.hostname or "", where.port or 2375))
        link.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
        return b" 200 " in link.recv(64)
    return False


@contextmanager
def _container() -> Iterator[Broker]:
    from testcontainers.community.kafka import KafkaContainer

    container = KafkaContainer().with_kraft()
    container.with_env("KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", "1000")
    container.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    with container:
        yield Broker(container.get_bootstrap_server(), "container")


@contextmanager
def embedded(security: BrokerSecurity = NO_SECURITY, **topics: int) -> Iterator[EmbeddedKafka]:
    """A broker of one's own, with topics of so many partitions. Without a running loop."""
    kafka = EmbeddedKafka(security=security)
    asyncio.run(kafka.start())
    try:
        if topics:
            asyncio.run(kafka.create_topics(topics))
        yield kafka
    finally:
        kafka.kill()
