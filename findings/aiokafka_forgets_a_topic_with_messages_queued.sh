#!/usr/bin/env bash
# aiokafka 0.14.0: a producer that is older than metadata.max.age (5 minutes) before it is first used loses what
# is sent to one topic when another topic is used next.
# Guess: a topic that is there stays known while messages for it are queued.
# Seen: until a producer has a topic, each refresh of its metadata asks for all topics. What is learnt so serves
# `send`, which then doesn't ask to have the topic kept. The first topic that isn't known yet becomes the only one
# that is asked for: the other one is forgotten with its messages in the queue. They wait until request_timeout_ms
# is over, then fail with NotLeaderForPartitionError, while the client asks for metadata hundreds of times a second.
# A producer that finds the coordinator loading as it starts comes into the same state at once.
# Here metadata_max_age_ms is 300 so that it takes no 5 minutes, and `a` has a linger of 200 ms.
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

from aiokafka import AIOKafkaProducer, __version__
from confluent_kafka.admin import AdminClient

asked = []


class Asked(logging.Filter):
    def filter(self, line):
        asked.append("Sending metadata request" in line.getMessage())
        return False


logging.getLogger("aiokafka").setLevel(logging.DEBUG)
logging.getLogger("aiokafka").addFilter(Asked())
print("aiokafka", __version__)
brokers = AdminClient({"test.mock.num.brokers": 1})  # the broker that librdkafka brings for tests
(broker,) = brokers.list_topics("a", timeout=30).brokers.values()


async def run(age_ms):
    producer = AIOKafkaProducer(
        bootstrap_servers=f"{broker.host}:{broker.port}",
        metadata_max_age_ms=age_ms,
        linger_ms=200,
        request_timeout_ms=5000,
    )
    await producer.start()
    await asyncio.sleep(1)
    asked.clear()
    began = time.monotonic()
    first = asyncio.ensure_future(producer.send_and_wait("a", b"x"))
    await asyncio.sleep(0)
    await producer.send_and_wait(f"b{age_ms}", b"x")
    (outcome,) = await asyncio.gather(first, return_exceptions=True)
    seconds, requests = time.monotonic() - began, sum(asked)
    await producer.stop()
    is_lost = isinstance(outcome, Exception)
    print(
        f"used {1000 / age_ms:.2f} times metadata_max_age_ms after its start: a's message",
        f"failed with {type(outcome).__name__}" if is_lost else "was written",
        f"after {seconds:.1f} s and {requests} metadata requests",
    )
    return is_lost, requests


young = asyncio.run(run(300_000))
old = asyncio.run(run(300))
sys.exit(not (old[0] and old[1] > 500 and not young[0] and young[1] < 10))
PYTHON
