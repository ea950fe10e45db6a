"""mlrun's way: only the newest offset is acked, and means all up to it."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: newest-ack
#     labels:
#       mlrun/class: serving
#   spec:
#     runtime: python:3.11
#     handler: newest_ack:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         explicitAckMode: explicitOnly
#         attributes:
#           topics: [newest-ack]
#           consumerGroup: newest-ack

# says: acked up to 2

import nuclio_sdk


async def handler(context, event):
    assert not hasattr(event, "key")
    event.key = json_key(event)
    if event.offset == 2:
        await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
        context.logger.info(f"acked up to {event.offset}")


def json_key(event):
    return event.body.decode()
