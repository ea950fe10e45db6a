"""What http functions return is fine here too."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: response
#   spec:
#     runtime: python:3.11
#     handler: response:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [response]
#           consumerGroup: response

# says: answered 2


def handler(context, event):
    context.logger.info(f"answered {event.offset}")
    return context.Response(
        body="Hello, from Nuclio", headers={"x": "y"}, content_type="text/plain", status_code=201
    )
