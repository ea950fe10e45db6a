"""A generator is run to its end."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: generator
#   spec:
#     runtime: python:3.11
#     handler: generator:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [generator]
#           consumerGroup: generator

# says: after the last item 2


def handler(context, event):
    yield "one"
    yield "two"
    context.logger.info(f"after the last item {event.offset}")
