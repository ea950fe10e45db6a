"""The topics that the traffic goes to, where nobody has made them."""

from collections.abc import Iterable

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code


async def create_topics(brokers: str, names: Iterable[str], partitions: int) -> None:
    """Raises KafkaError."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        topics = [NewTopic(name, partitions, replication_factor=1) for name in sorted(set(names))]
        answer = await admin.create_topics(topics)
        for _, code, *_ in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise for_code(code)
    finally:
        await admin.close()
