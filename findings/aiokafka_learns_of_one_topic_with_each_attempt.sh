#!/usr/bin/env bash
# aiokafka 0.14.0: `end_offsets` (beginning_offsets, offsets_for_times) of partitions of 400 topics or more fails after
# 40 s on an idle broker, and takes a tenth of a second for each topic below that.
# Guess: a client asks once for the metadata of all topics that it is asked about, then for their offsets.
# Seen: for topics that the client doesn't know yet, which are all of them where a consumer has no subscription, each
# attempt adds the first one that is unknown, gives up, and waits retry_backoff_ms. It takes as many attempts as there
# are topics, until request_timeout_ms is over. What lists a cluster's offsets or the lag of a group meets that.
# What helps: a subscription to them, or the client's own set_topics, before the question.
# Runs in a temporary folder, on loopback. Exits 0 where that is so, 1 where it isn't any more.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1 aiokafka==0.14.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import logging
import sys
import time

from aiokafka import AIOKafkaConsumer, TopicPartition, __version__
from aiokafka.errors import KafkaTimeoutError
from confluent_kafka.admin import AdminClient

asked = 0


class Asked(logging.Filter):
    def filter(self, line):
        global asked
        asked += "Sending metadata request" in line.getMessage()
        return False


logging.getLogger("aiokafka").setLevel(logging.DEBUG)
logging.getLogger("aiokafka").addFilter(Asked())
print("aiokafka", __version__)
admin = AdminClient({"test.mock.num.brokers": 1})  # the broker that librdkafka brings for tests
names = [f"t{number}" for number in range(450)]
for name in names:
    (broker,) = admin.list_topics(name, timeout=30).brokers.values()  # which makes it


async def ends_of(names):
    """How often metadata was asked for, how long it took, and whether there was an answer."""
    global asked
    async with AIOKafkaConsumer(bootstrap_servers=f"{broker.host}:{broker.port}", group_id=None) as consumer:
        asked, began = 0, time.monotonic()
        try:
            await consumer.end_offsets([TopicPartition(name, 0) for name in names])
            answered = True
        except KafkaTimeoutError as error:
            print(error)
            answered = False
        print(f"{len(names)} topics: metadata asked for {asked} times, {time.monotonic() - began:.1f} s, {answered=}")
        return asked, answered


few, many = asyncio.run(ends_of(names[:40])), asyncio.run(ends_of(names))
sys.exit(not (few[0] >= 40 and few[1] and not many[1]))
PYTHON
