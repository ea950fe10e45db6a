"""State in user_data, made once."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: counts
#   spec:
#     runtime: python:3.11
#     handler: counts:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [counts]
#           consumerGroup: counts

# says: seen 1
# says: seen 2
# says: seen 3


def init_context(context):
    context.user_data.seen = 0


def handler(context, event):
    context.user_data.seen += 1
    context.logger.info(f"seen {context.user_data.seen}")
