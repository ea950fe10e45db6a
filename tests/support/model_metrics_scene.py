"""functions/model_metrics from a broker into a database: what is sent, and what has to be stored."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from broker import Broker
from inference_responses import as_json, framed, protobuf
from kafka_records import group_offsets
from replica import QUICK_GROUP, Replica, replica, wait_until

from headrace.functions.database.engine import open_engine, read_only
from headrace.functions.model_metrics.messages.payload import ContentType
from headrace.functions.model_metrics.messages.responses import Ignored
from headrace.functions.model_metrics.store.tables import IGNORED, RESPONSES

FUNCTION = Path(__file__).parents[2] / "functions" / "model_metrics" / "function.yaml"
PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Message:
    """One to send, and what is to be stored of it: its parts, or the reason why it is ignored."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    content_type: ContentType = ContentType.UNKNOWN
    document: object = None
    request_id: str | None = None
    reason: Ignored | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A response as it was sent, or as it is stored."""

    topic: str
    partition: int
    offset: int
    milliseconds: int
    names: tuple[str, str, str]
    """Namespace, model and pipeline."""
    key: str
    request_id: str | None
    content_type: str
    payload: bytes
    document: object


def mixed(count: int) -> Iterator[Message]:
    """Protobuf and JSON in turn; of each hundred, one for each thing that may be wrong with a message."""
    for number in range(count):
        yield _message(number, _faults().get(number % 100, {}))


def _message(number: int, fault: dict[str, Any]) -> Message:
    values = (number % 1024 / 1024, 1 - number % 1024 / 1024)  # which FP32 holds
    written: tuple[bytes, ContentType] = (as_json(values), ContentType.JSON)
    if number % 2 == 0:
        written = protobuf(values, is_raw=number % 4 == 0), ContentType.PROTO
        if number % 8 == 0:
            written = framed(written[0]), ContentType.PROTO_WITH_SCHEMA
    request = f"req.{number}"
    said: dict[str, Any] = {
        "value": written[0],
        "key": f"{number % 5}.flowers.{request}".encode(),
        "headers": (("pipeline", b"another"), ("x-request-id", request.encode()), ("pipeline", b"flowers")),
        "content_type": written[1],
        "document": json.loads(as_json(values)),
        "request_id": request,
    }
    return Message(**said | fault)


def _faults() -> dict[int, dict[str, Any]]:
    """By the place in a hundred."""
    return {
        10: {"headers": (), "reason": Ignored.NO_PIPELINE},
        21: {"headers": (("pipeline", b""),), "reason": Ignored.EMPTY_PIPELINE},
        32: {"key": None, "reason": Ignored.NO_KEY},
        43: {"key": b"one and the same", "headers": (("pipeline", b"flowers"),), "request_id": None},
        54: {"value": None, "reason": Ignored.NO_VALUE},
        65: {"key": b"\xff\xfe", "reason": Ignored.BAD_KEY},
        76: {"value": b"\xff\xfe no message", "content_type": ContentType.UNKNOWN, "document": None},
    }


def of_one_key(count: int) -> Iterator[Message]:
    """Each is a row."""
    for number in range(count):
        yield _message(
            number, {"key": b"the key", "headers": (("pipeline", b"flowers"),), "request_id": None}
        )


class Scene:
    """Topics of a prefix, a group and a database of one's own."""

    def __init__(self, broker: Broker, url: str, folder: Path) -> None:
        self.broker = broker
        self.url = url
        self.folder = folder
        self.group = broker.create_topic(1)  # a name that nobody else has
        self.prefix = self.group
        self.expected: list[Row] = []
        self.ignored: Counter[str] = Counter()

    # ---- what is sent

    def topic(self, model: str, prefix: str = "") -> str:
        """The outputs of a model, as Core 2 names them."""
        return f"{prefix or self.prefix}.ns1.model.{model}.outputs"

    def create(self, *topics: str, **configs: str) -> None:
        """With dots for underscores in the settings."""
        asyncio.run(self._create(topics, {name.replace("_", "."): it for name, it in configs.items()}))

    async def _create(self, topics: Iterable[str], configs: dict[str, str]) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        await admin.start()
        try:
            new = [NewTopic(topic, PARTITIONS, 1, topic_configs=configs) for topic in topics]
            answer = await admin.create_topics(new)
            assert {code for _, code, *_ in answer.topic_errors} == {0}, answer
        finally:
            await admin.close()

    def send(self, topic: str, messages: Iterable[Message], model: str = "") -> None:
        """Over the topic's partitions in turn. To be stored where it is that model's."""
        asyncio.run(self._send(topic, list(messages), model))

    async def _send(self, topic: str, messages: list[Message], model: str) -> None:
        now = int(time.time() * 1000)
        async with AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, linger_ms=5) as producer:
            told = [
                await producer.send(
                    topic, it.value, it.key, number % PARTITIONS, now + number, list(it.headers)
                )
                for number, it in enumerate(messages)
            ]
            for number, sent in enumerate(await asyncio.gather(*told)):
                message = messages[number]
                # aiokafka tells the broker's time, but of ours only the first one of a batch.
                at = sent.timestamp if sent.timestamp_type else now + number
                if model and message.reason is not None:
                    self.ignored[message.reason] += 1
                elif model:
                    self.expected.append(_row(message, sent, at, model))

    # ---- the function

    def function(
        self, *options: str, name: str = "", prefix: str = "", **attributes: object
    ) -> AbstractContextManager[Replica]:
        """Its kafka-cluster trigger alone, so without Spark."""
        document = yaml.safe_load(FUNCTION.read_text())
        del document["spec"]["spark"]
        triggers = document["spec"]["triggers"]
        document["spec"]["triggers"] = {"responses": triggers["responses"]}
        triggers["responses"]["attributes"] |= {
            "brokers": [self.broker.bootstrap],
            "consumerGroup": self.group,
            **QUICK_GROUP,
            **attributes,
        }
        self.folder.mkdir(exist_ok=True, parents=True)
        (self.folder / "function.yaml").write_text(yaml.safe_dump(document))
        variables = {
            "KAFKA_CONSUMER_TOPIC_PREFIX": prefix or self.prefix,
            "KAFKA_METADATA_REFRESH_FREQUENCY": "1s",
            "KAFKA_CONSUMER_POLL_INTERVAL": "1s",
            "FEEDBACK_TOPIC": f"{self.group}.feedback",
            "DATABASE_URL": self.url,
        }
        return replica(self.folder, *options, name=name, variables=variables)

    # ---- what is stored

    def stored(self) -> list[Row]:
        """In the order of topics, partitions and offsets."""
        with self._connection() as connection:
            return sorted(map(_stored, connection.execute(sa.select(RESPONSES))), key=_place)

    def counts(self) -> tuple[int, Counter[str]]:
        """Responses, and messages that were ignored, by reason; none before there are tables."""
        by_reason = sa.select(IGNORED.c.reason, sa.func.count()).group_by(IGNORED.c.reason)
        with self._connection() as connection:
            if not sa.inspect(connection).has_table(IGNORED.name):
                return 0, Counter()
            responses = connection.execute(sa.select(sa.func.count()).select_from(RESPONSES)).scalar_one()
            return responses, Counter(dict(map(tuple, connection.execute(by_reason))))

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        engine = read_only(open_engine(self.url))
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def wait_stored(self, about: Replica, seconds: float = 300) -> None:
        """Until nothing is missing any more."""
        wanted = len(self.expected), self.ignored
        wait_until(lambda: self.counts() >= wanted, seconds, about=about)

    def wait_for_more(self, about: Replica) -> None:
        """Until there are more responses than now."""
        before, _ = self.counts()
        wait_until(lambda: self.counts()[0] > before, about=about)

    def differences(self) -> list[tuple[Row | None, Row | None]]:
        """What was sent beside what is stored, where these are not the same."""
        pairs = itertools.zip_longest(sorted(self.expected, key=_place), self.stored())
        return [(sent, stored) for sent, stored in pairs if sent != stored]

    def read_topics(self) -> set[str]:
        """Those of which the group has committed something."""
        return {topic for topic, _ in group_offsets(self.broker, self.group)}


def _place(row: Row) -> tuple[str, int, int]:
    return row.topic, row.partition, row.offset


def _row(message: Message, sent: Any, milliseconds: int, model: str) -> Row:
    assert message.value is not None
    assert message.key is not None
    return Row(
        topic=sent.topic,
        partition=sent.partition,
        offset=sent.offset,
        milliseconds=milliseconds,
        names=("ns1", model, "flowers"),
        key=message.key.decode(),
        request_id=message.request_id,
        content_type=message.content_type,
        payload=message.value,
        document=message.document,
    )


def _stored(row: Any) -> Row:
    return Row(
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        milliseconds=round(row.response_timestamp.astimezone(UTC).timestamp() * 1000),
        names=(row.namespace, row.model_name, row.pipeline_name),
        key=row.inference_response_id,
        request_id=row.request_id,
        content_type=row.content_type,
        payload=row.payload,
        document=row.payload_json,
    )
