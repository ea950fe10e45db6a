"""An async init_context, with a client that belongs to the loop."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: async-init
#   spec:
#     runtime: python:3.11
#     handler: async_init:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [async-init]
#           consumerGroup: async-init

# says: same loop 2

import asyncio


async def init_context(context):
    context.user_data.loop = asyncio.get_running_loop()
    context.user_data.lock = asyncio.Lock()


async def handler(context, event):
    async with context.user_data.lock:
        assert asyncio.get_running_loop() is context.user_data.loop
        context.logger.info(f"same loop {event.offset}")
