"""An ack where returning acks: it does nothing."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: needless-ack
#   spec:
#     runtime: python:3.11
#     handler: needless_ack:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [needless-ack]
#           consumerGroup: needless-ack

# says: needless 2

import nuclio_sdk


async def handler(context, event):
    await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
    context.logger.info(f"needless {event.offset}")
