"""An async handler."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: async-sleep
#   spec:
#     runtime: python:3.11
#     handler: async_sleep:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [async-sleep]
#           consumerGroup: async-sleep

# says: slept 2

import asyncio


async def handler(context, event):
    await asyncio.sleep(0.001)
    context.logger.info(f"slept {event.offset}")
