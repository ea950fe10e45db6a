"""What Nuclio tells a worker of its function."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: environment
#     namespace: nuclio-test
#   spec:
#     runtime: python:3.11
#     handler: environment:handler
#     description: Says it.
#     version: 7
#     env:
#       - name: GREETING
#         value: here
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [environment]
#           consumerGroup: environment

# says: environment 7 Says it. environment:handler here nuclio-test 0

import os


def handler(context, event):
    name, version, description, handler = (
        os.environ[f"NUCLIO_FUNCTION_{what}"] for what in ("NAME", "VERSION", "DESCRIPTION", "HANDLER")
    )
    greeting, namespace = os.environ["GREETING"], context.platform.namespace
    assert os.environ["NUCLIO_HANDLER"] == handler
    context.logger.info(
        f"{name} {version} {description} {handler} {greeting} {namespace} {context.worker_id}"
    )
