"""asyncio.run() in a sync handler, and the loop of the next record is what it was."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: asyncio-run
#   spec:
#     runtime: python:3.11
#     handler: asyncio_run:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [asyncio-run]
#           consumerGroup: asyncio-run

# says: ran 2

import asyncio


async def work(n):
    await asyncio.sleep(0)
    return n


def handler(context, event):
    loop = asyncio.get_event_loop()
    n = asyncio.run(work(event.offset))
    assert asyncio.get_event_loop() is loop
    context.logger.info(f"ran {n}")
