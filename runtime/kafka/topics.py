"""Topics on any broker: created so that they can be used at once, refusals named."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import start_client

_LEADER_SECONDS = 20.0
_POLL_SECONDS = 0.01
_ENDS_SECONDS = 2.0
_TOPIC_ALREADY_EXISTS = 36


async def create_topics(
    brokers: BrokerAccess, topics: Mapping[str, int], config: Mapping[str, str] | None = None
) -> None:
    """Create topics (name to partitions) with one replica, and wait until all their leaders serve.

    A topic that exists is fine and stays as it is. BrokerError names what the broker refused.
    """
    from aiokafka import AIOKafkaConsumer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaError

    wanted = [NewTopic(name, count, 1, topic_configs=dict(config or {})) for name, count in topics.items()]
    options = brokers.client_options()
    admin, consumer = AIOKafkaAdminClient(**options), AIOKafkaConsumer(**options)
    try:
        await start_client(admin)
        await start_client(consumer)
        refuse_errors((await admin.create_topics(wanted)).topic_errors, {_TOPIC_ALREADY_EXISTS})
        # Topics are created before their partitions have leaders: records sent now would be refused.
        async with asyncio.timeout(_LEADER_SECONDS):
            await _until_leaders_serve(admin, consumer, list(topics))
    except KafkaError as error:
        raise BrokerError(f"cannot create topics at {brokers}: {error}") from error
    except TimeoutError as error:
        raise BrokerError(f"topics {', '.join(topics)} have no leaders at {brokers}") from error
    finally:
        await consumer.stop()
        await admin.close()


async def _until_leaders_serve(admin: Any, consumer: Any, topics: list[str]) -> None:
    from aiokafka import TopicPartition

    # a broker tells nobody: it has to be asked
    while not _all_known(found := await admin.describe_topics(topics)):  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)
    # metadata is out before the logs are there; this asks again until they are
    places = [
        TopicPartition(topic["topic"], part["partition"]) for topic in found for part in topic["partitions"]
    ]
    await know_topics(consumer, topics)
    await consumer.end_offsets(places)


async def know_topics(consumer: Any, topics: Iterable[str]) -> None:
    """Tell a consumer its topics before it is asked for offsets.

    aiokafka 0.14 would learn of one topic with each attempt, ten in a second, and give up after 40 s.
    """
    await consumer._client.set_topics({*topics})  # noqa: SLF001  # a consumer without subscription has no other


async def end_offsets(consumer: Any, places: Iterable[Any]) -> dict[Any, int]:
    """Return the end offsets of those partitions that exist. The consumer must know their topics.

    aiokafka would wait for one that is deleted meanwhile, for 40 s, and then have none of the others.
    """
    left = _there(consumer, places)
    seconds: float | None = _ENDS_SECONDS
    while left:
        try:
            async with asyncio.timeout(seconds):
                ends: dict[Any, int] = await consumer.end_offsets(left)
                return ends
        except TimeoutError:
            await consumer._client.force_metadata_update()  # noqa: SLF001  # as above
            before, left = left, _there(consumer, left)
            # Those that are gone leave the question; if none is, the broker only takes its time.
            seconds = None if left == before else _ENDS_SECONDS  # all are there: they are slow
    return {}


def _there(consumer: Any, places: Iterable[Any]) -> list[Any]:
    return [it for it in places if it.partition in (consumer.partitions_for_topic(it.topic) or ())]


def _all_known(topics: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        topic["error_code"] == 0 and all(part["error_code"] == 0 for part in topic["partitions"])
        for topic in topics
    )


def refuse_errors(answers: Sequence[Any], fine: set[int]) -> None:
    """Raise BrokerError for the first (topic, error code, ...) that is neither 0 nor fine."""
    from aiokafka.errors import for_code

    # Answers to a delete have no message.
    for topic, code, *message in answers:
        if code and code not in fine:
            said = next(filter(None, message), for_code(code).description)
            raise BrokerError(f"topic {topic}: {said}")


ResourceKind = Literal["topic", "broker"]


async def read_config(admin: Any, kind: ResourceKind, name: str) -> Mapping[str, str]:
    """Return all settings of a topic, or of the broker of that id, defaults too, without secret ones.

    Raises KafkaError, TopicAuthorizationFailedError and ClusterAuthorizationFailedError where this user may
    not ask.
    """
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.errors import for_code

    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType[kind.upper()], name)])
    code, message, _, _, entries = answer.resources[0]
    if code:
        raise for_code(code)(message)
    return {entry[0]: entry[1] for entry in entries if entry[1] is not None}
