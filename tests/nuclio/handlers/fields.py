"""All that an event of a Kafka trigger has."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: fields
#   spec:
#     runtime: python:3.11
#     handler: fields:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [fields]
#           consumerGroup: fields

# says: 2 /fields b'test' 8 kafka-cluster records

from datetime import datetime


def handler(context, event):
    assert isinstance(event.timestamp, datetime)
    assert event.get_header("Source") == event.headers["source"]
    assert (event.content_type, event.method, event.url, event.fields) == ("", "", "", {})
    trigger = event.trigger
    source, size = event.headers["source"], event.size
    context.logger.info(f"{event.offset} /{event.path} {source} {size} {trigger.kind} {trigger.name}")
