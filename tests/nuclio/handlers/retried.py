"""It fails once: Nuclio would have lost the record."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: retried
#   spec:
#     runtime: python:3.11
#     handler: retried:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [retried]
#           consumerGroup: retried

# says: second try of 1


def handler(context, event):
    if event.offset == 1 and not context.user_data.has_failed:
        context.user_data.has_failed = True
        raise ValueError("not at first")
    if event.offset == 1:
        context.logger.info("second try of 1")


def init_context(context):
    context.user_data.has_failed = False
