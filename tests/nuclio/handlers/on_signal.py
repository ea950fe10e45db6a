"""The older page's name for both callbacks."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: on-signal
#   spec:
#     runtime: python:3.11
#     handler: on_signal:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [on-signal]
#           consumerGroup: on-signal

# says: handled 2


def init_context(context):
    context.platform.on_signal(lambda: context.logger.info("signalled"))


def handler(context, event):
    context.logger.info(f"handled {event.offset}")
