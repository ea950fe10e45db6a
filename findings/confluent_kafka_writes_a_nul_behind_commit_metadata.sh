#!/usr/bin/env bash
# confluent-kafka 2.16.1 (librdkafka 2.16.0) writes a NUL byte behind the metadata of each commit: both
# AdminClient.alter_consumer_group_offsets and Consumer.commit do.
# Expected: the broker keeps the metadata that was given: 'state=1.', 8 bytes.
# Seen: 'state=1.\0', 9 bytes, of which only other clients hear: its own list_consumer_group_offsets shows 8. So
# whoever copies a group's commits with it changes what stands beside each offset, and others misread that.
# Apache Kafka 4.2.2 keeps the byte as the broker here does, which is the one that librdkafka brings for tests.
# Runs in a temporary folder, on loopback. Exits 0 where that is so, 1 where it isn't any more.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1 aiokafka==0.14.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import sys

import confluent_kafka
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

GIVEN = "state=1."
print("confluent-kafka", confluent_kafka.__version__, "librdkafka", confluent_kafka.libversion()[0])
admin = AdminClient({"test.mock.num.brokers": 1})
(broker,) = admin.list_topics("t", timeout=30).brokers.values()
where = f"{broker.host}:{broker.port}"


async def kept(group):
    """As a client of other make reads it."""
    reader, place = AIOKafkaAdminClient(bootstrap_servers=where), TopicPartition("t", 0)
    await reader.start()
    try:
        return (await reader.list_consumer_group_offsets(group, partitions=[place]))[place].metadata
    finally:
        await reader.close()


def commit():
    return confluent_kafka.TopicPartition("t", 0, 5, metadata=GIVEN)


(written,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("by-admin", [commit()])]).values()
written.result(30)
consumer = Consumer({"bootstrap.servers": where, "group.id": "by-consumer"})
consumer.commit(offsets=[commit()], asynchronous=False)
consumer.close()
by_admin, by_consumer = asyncio.run(kept("by-admin")), asyncio.run(kept("by-consumer"))
(read,) = admin.list_consumer_group_offsets(
    [ConsumerGroupTopicPartitions("by-admin", [confluent_kafka.TopicPartition("t", 0)])]
).values()
(own,) = read.result(30).topic_partitions
print("given                                ", ascii(GIVEN))
print("kept, of Consumer.commit             ", ascii(by_consumer))
print("kept, of alter_consumer_group_offsets", ascii(by_admin))
print("the same, as its own client shows it ", ascii(own.metadata))
sys.exit((by_consumer, by_admin, own.metadata) != (GIVEN + "\0", GIVEN + "\0", GIVEN))
PYTHON
