#!/usr/bin/env bash
# aiokafka 0.14.0: a start that is cancelled (a time limit, a shutdown) while the first answer is on its way leaves
# its connection open, and no stop closes it.
# Guess: after `start` has raised CancelledError, `stop` closes all that the client has opened.
# Seen: for consumers and producers there is a step of the start, the request for metadata on the first connection,
# at which a cancel loses that: the broker keeps it until Python collects cycles, which then warns of an unclosed
# AIOKafkaConnection. Retries of a start under `asyncio.timeout` pile such connections up.
# The broker here takes 20 ms for each answer.
# Runs in a temporary folder, on loopback. Exits 0 where that is so, 1 where it isn't any more.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1 aiokafka==0.14.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import gc
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, __version__
from aiokafka.conn import AIOKafkaConnection
from confluent_kafka.admin import AdminClient

print("aiokafka", __version__)
brokers = AdminClient({"test.mock.num.brokers": 1, "test.mock.broker.rtt": 20})  # the broker that librdkafka brings for tests
(broker,) = brokers.list_topics("a", timeout=30).brokers.values()


def left_open():
    return [it for it in gc.get_objects() if isinstance(it, AIOKafkaConnection) and it.connected()]


async def steps_that_leak(kind):
    """Cancelled after 0, 1, 2 ... turns, until it has started before the cancel."""
    leaked = []
    for steps in range(400):
        client = kind(bootstrap_servers=f"{broker.host}:{broker.port}")
        starting = asyncio.ensure_future(client.start())
        for _ in range(steps):
            await asyncio.sleep(0.002)
        has_started = starting.done()
        starting.cancel()
        await asyncio.wait([starting])
        await client.stop()
        await asyncio.sleep(0.01)
        if found := left_open():
            leaked.append(steps)
        for connection in found:
            connection.close()
        if has_started:
            break
    print(f"{kind.__name__}: {len(leaked)} of {steps} cancelled starts left a connection that stop did not close")
    return leaked


leaks = [asyncio.run(steps_that_leak(kind)) for kind in (AIOKafkaConsumer, AIOKafkaProducer)]
sys.exit(not all(leaks))
PYTHON
