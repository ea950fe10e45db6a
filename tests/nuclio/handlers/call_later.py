"""A timer of a sync handler's."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: call-later
#   spec:
#     runtime: python:3.11
#     handler: call_later:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [call-later]
#           consumerGroup: call-later

# says: later 0

import asyncio


def handler(context, event):
    asyncio.get_event_loop().call_later(0.01, context.logger.info, f"later {event.offset}")
