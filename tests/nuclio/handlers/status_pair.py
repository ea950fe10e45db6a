"""A pair of status and body."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: status-pair
#   spec:
#     runtime: python:3.11
#     handler: status_pair:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [status-pair]
#           consumerGroup: status-pair

# says: paired 2


def handler(context, event):
    context.logger.info(f"paired {event.offset}")
    return 200, {"offset": event.offset}
