"""Drain and termination callbacks are registered."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: callbacks
#   spec:
#     runtime: python:3.11
#     handler: callbacks:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [callbacks]
#           consumerGroup: callbacks

# says: registered
# says: handled 2


def init_context(context):
    def on_drain():
        context.logger.info("drained")

    async def on_termination():
        context.logger.info("terminated")

    context.platform.set_drain_callback(on_drain)
    context.platform.set_termination_callback(on_termination)
    context.logger.info("registered")


def handler(context, event):
    context.logger.info(f"handled {event.offset}")
