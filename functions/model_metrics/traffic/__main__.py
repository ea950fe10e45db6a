"""`python -m headrace.functions.model_metrics.traffic`: produce inference traffic in Core 2's format."""

import asyncio
import os
import random
import sys
from collections.abc import Iterable

import click
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from headrace.functions.model_metrics.settings import SettingsError, read_settings
from headrace.functions.model_metrics.traffic.models import MODELS, topic_of

_TURN_SECONDS = 0.1
_PARTITIONS = 3


async def create_topics(brokers: str, names: Iterable[str], partitions: int) -> None:
    """Create the topics that don't exist yet. Raises KafkaError."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        # One replica, as the embedded Kafka has one broker.
        topics = [NewTopic(name, partitions, replication_factor=1) for name in sorted(set(names))]
        answer = await admin.create_topics(topics)
        for _, code, *_ in answer.topic_errors:
            # A second start finds the topics of the first.
            if code not in (0, TopicAlreadyExistsError.errno):
                raise for_code(code)
    finally:
        await admin.close()


@click.command()
@click.option("--brokers", default="127.0.0.1:9092", show_default=True, envvar="HEADRACE_BROKERS")
@click.option("--rate", default=50.0, show_default=True, help="Responses a second.")
@click.option("--count", type=int, help="Stop after that many; else at Ctrl-C.")
@click.option("--feedback", default=0.7, show_default=True, help="The share of responses that get feedback.")
@click.option("--seed", type=int, help="The same traffic again.")
def main(brokers: str, rate: float, count: int | None, feedback: float, seed: int | None) -> None:
    """Write responses of two versions of a classifier and of a regressor, and what was true."""
    try:
        sent = asyncio.run(_play(brokers, rate, count, feedback, random.Random(seed)))  # noqa: S311
    except (SettingsError, KafkaError) as error:
        print(error, file=sys.stderr)  # noqa: T201  # for the terminal
        sys.exit(2)
    except KeyboardInterrupt:
        return
    print(f"{sent} responses")  # noqa: T201


async def _play(brokers: str, rate: float, count: int | None, feedback: float, chance: random.Random) -> int:
    settings = read_settings(os.environ)
    topics = settings.topic_prefix, settings.feedback_topic
    clock = asyncio.get_running_loop()
    began, sent = clock.time(), 0
    # Before the first message: a topic that the broker makes itself has its default of partitions.
    await create_topics(
        brokers, [settings.feedback_topic, *(topic_of(it, topics[0]) for it in MODELS)], _PARTITIONS
    )
    async with AIOKafkaProducer(bootstrap_servers=brokers, acks="all", linger_ms=5) as producer:
        while count is None or sent < count:
            # By the clock: a turn that was slow is made up for in the next.
            due = int((clock.time() - began) * rate) + 1
            for _ in range(sent, due if count is None else min(due, count)):
                model = chance.choice(MODELS)
                for it in model.messages(chance, *topics, feedback):
                    await producer.send(it.topic, it.value, it.key, headers=list(it.headers))
                sent += 1
            await asyncio.sleep(_TURN_SECONDS)
        await producer.flush()
    return sent


if __name__ == "__main__":
    main()
