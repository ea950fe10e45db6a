"""The snippet of Nuclio's page: a sync handler acks on the loop."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: page-ack
#   spec:
#     runtime: python:3.11
#     handler: page_ack:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         explicitAckMode: explicitOnly
#         attributes:
#           topics: [page-ack]
#           consumerGroup: page-ack
#           workerAllocationMode: static

# says: acked 2

import asyncio

import nuclio


def handler(context, event):
    qualified_offset = nuclio.QualifiedOffset.from_event(event)
    loop = asyncio.get_event_loop()
    loop.run_until_complete(context.platform.explicit_ack(qualified_offset))
    context.logger.info(f"acked {event.offset}")
