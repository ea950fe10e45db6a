"""A sync handler that leaves work to tasks on the running loop."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: sync-tasks
#   spec:
#     runtime: python:3.11
#     handler: sync_tasks:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [sync-tasks]
#           consumerGroup: sync-tasks

# says: flushed 0
# says: flushed 2

import asyncio


async def flush(context, n):
    await asyncio.sleep(0)
    context.logger.info(f"flushed {n}")


def handler(context, event):
    context.user_data.tasks.append(asyncio.get_running_loop().create_task(flush(context, event.offset)))


def init_context(context):
    context.user_data.tasks = []
