"""An object that can be called."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: instance
#   spec:
#     runtime: python:3.11
#     handler: instance:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [instance]
#           consumerGroup: instance

# says: called 2


class Model:
    def __call__(self, context, event):
        context.logger.info(f"called {event.offset}")


handler = Model()
