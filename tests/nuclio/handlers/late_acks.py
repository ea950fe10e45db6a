"""Records are kept, and acked by a task."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: late-acks
#   spec:
#     runtime: python:3.11
#     handler: late_acks:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         explicitAckMode: explicitOnly
#         attributes:
#           topics: [late-acks]
#           consumerGroup: late-acks
#           workerAllocationMode: static

# says: kept 2

import asyncio

import nuclio_sdk


async def later(context, qualified_offset):
    await asyncio.sleep(0.01)
    await context.platform.explicit_ack(qualified_offset)


async def handler(context, event):
    task = asyncio.create_task(later(context, nuclio_sdk.QualifiedOffset.from_event(event)))
    context.user_data.tasks.add(task)
    task.add_done_callback(context.user_data.tasks.discard)
    context.logger.info(f"kept {event.offset}")


def init_context(context):
    context.user_data.tasks = set()
