"""An event as a mapping, and as JSON."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: vars
#   spec:
#     runtime: python:3.11
#     handler: vars:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [vars]
#           consumerGroup: vars

# says: 19 of 19, vars/0/2

import json

NAMES = (
    "body content_type trigger fields headers id method path size timestamp url shard_id num_shards type"
    " type_version version last_in_batch offset topic"
).split()


def handler(context, event):
    found = [name for name in NAMES if name in vars(event)]
    place = json.loads(event.to_json())
    context.logger.info(
        f"{len(found)} of {len(NAMES)}, {place['topic']}/{place['shard_id']}/{place['offset']}"
    )
