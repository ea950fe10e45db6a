"""Loggers of all kinds."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: logs
#   spec:
#     runtime: python:3.11
#     handler: logs:handler
#     loggerSinks:
#       - level: debug
#         sink: stdout
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [logs]
#           consumerGroup: logs

# says: with values
# says: by logging
# says: a debug line
# says: printed 2

import logging


class Thing:
    def __log__(self):
        return "a thing"


def handler(context, event):
    context.logger.info_with("with values", thing=Thing(), nan=float("nan"), nested={"a": [1, (2, 3)]})
    context.logger.debug("a debug line")
    logging.getLogger("mine").warning("by logging")
    print("printed", event.offset)
