"""A response may say no-ack; the ack comes with a later record."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: no-ack
#   spec:
#     runtime: python:3.11
#     handler: no_ack:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         explicitAckMode: enable
#         attributes:
#           topics: [no-ack]
#           consumerGroup: no-ack
#           workerAllocationMode: static

# says: released 2 others

import nuclio_sdk


async def handler(context, event):
    waiting = context.user_data.waiting
    response = nuclio_sdk.Response(body="", headers={}, content_type="text/plain", status_code=200)
    if event.offset < 2:
        waiting.append(nuclio_sdk.QualifiedOffset.from_event(event))
        response.ensure_no_ack()
        return response
    for qualified_offset in waiting:
        await context.platform.explicit_ack(qualified_offset)
    context.logger.info(f"released {len(waiting)} others")
    return response


def init_context(context):
    context.user_data.waiting = []
