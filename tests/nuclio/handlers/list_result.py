"""A list is no trouble on a stream."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: list-result
#   spec:
#     runtime: python:3.11
#     handler: list_result:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [list-result]
#           consumerGroup: list-result

# says: listed 2


def handler(context, event):
    context.logger.info(f"listed {event.offset}")
    return [1, 2, 3]
