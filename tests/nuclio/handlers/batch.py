"""A batch handler that answers each event by its id."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: batch
#   spec:
#     runtime: python:3.11
#     handler: batch:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         batch:
#           mode: enable
#           batchSize: 3
#           timeout: 1s
#         attributes:
#           topics: [batch]
#           consumerGroup: batch

# says: a batch ends at 2

import nuclio_sdk


def handler(context, events):
    answers = [nuclio_sdk.Response(body=event.body, event_id=event.id) for event in events]
    context.logger.info(f"a batch ends at {events[-1].offset}")
    events.reverse()
    return answers
