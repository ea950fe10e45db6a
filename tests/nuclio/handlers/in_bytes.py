"""Without decoding, text is bytes."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: in-bytes
#   spec:
#     runtime: python:3.11
#     handler: in_bytes:handler
#     env:
#       - name: NUCLIO_PYTHON_DECODE_EVENT_STRINGS
#         value: "false"
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         explicitAckMode: explicitOnly
#         attributes:
#           topics: [in-bytes]
#           consumerGroup: in-bytes
#           workerAllocationMode: static

# says: b'in-bytes' b'test'

import nuclio_sdk


async def handler(context, event):
    await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
    context.logger.info(f"{event.topic} {event.headers[b'source']}")
