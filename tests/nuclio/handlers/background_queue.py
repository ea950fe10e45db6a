"""As mlrun's flows: init_context starts a task, the handler feeds it."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: background-queue
#   spec:
#     runtime: python:3.11
#     handler: background_queue:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [background-queue]
#           consumerGroup: background-queue

# says: took 0
# says: took 1
# says: took 2

import asyncio


async def consume(context, queue):
    while True:
        context.logger.info(f"took {await queue.get()}")


def init_context(context):
    queue = asyncio.Queue()
    context.user_data.queue = queue
    context.user_data.consumer = asyncio.get_running_loop().create_task(consume(context, queue))


async def handler(context, event):
    await context.user_data.queue.put(event.offset)
