"""The handler, and so its init_context, are another module's."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: elsewhere
#   spec:
#     runtime: python:3.11
#     handler: elsewhere:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [elsewhere]
#           consumerGroup: elsewhere

# says: from impl 2

from elsewhere_impl import handler  # noqa: F401  # Nuclio finds it by its name


def init_context(context):
    context.user_data.where = "here"
