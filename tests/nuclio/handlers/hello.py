"""The first function of everybody."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: hello
#   spec:
#     runtime: python:3.11
#     handler: hello:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [hello]
#           consumerGroup: hello

# says: hello, 0
# says: hello, 1
# says: hello, 2

import json


def handler(context, event):
    context.logger.info(f"hello, {json.loads(event.body)['n']}")
    return "a text that nobody reads"
