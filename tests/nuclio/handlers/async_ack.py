"""An async handler that acks with the event itself."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: async-ack
#   spec:
#     runtime: python:3.11
#     handler: async_ack:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         explicitAckMode: explicitOnly
#         attributes:
#           topics: [async-ack]
#           consumerGroup: async-ack
#           workerAllocationMode: static

# says: acked 2


async def handler(context, event):
    await context.platform.explicit_ack(event)
    context.logger.info(f"acked {event.offset}")
