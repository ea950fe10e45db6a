"""A command of the machine's."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: shell-command
#   spec:
#     runtime: python:3.11
#     handler: shell_command:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [shell-command]
#           consumerGroup: shell-command

# says: said 2

import subprocess


def handler(context, event):
    said = subprocess.run(["echo", str(event.offset)], capture_output=True, text=True, check=True).stdout
    context.logger.info(f"said {said.strip()}")
