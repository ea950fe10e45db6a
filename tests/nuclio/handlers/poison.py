"""Bad records are skipped, as in Nuclio, because the file says so."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: poison
#   spec:
#     runtime: python:3.11
#     handler: poison:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [poison]
#           consumerGroup: poison
#           onFailure:
#             maxAttempts: 1
#             then: skip

# says: went on with 2


def handler(context, event):
    if event.offset < 2:
        raise ValueError("always")
    context.logger.info(f"went on with {event.offset}")
