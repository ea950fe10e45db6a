"""Work in threads, waited for."""

# @nuclio.configure
#
# function.yaml:
#   apiVersion: nuclio.io/v1
#   kind: NuclioFunction
#   metadata:
#     name: threads
#   spec:
#     runtime: python:3.11
#     handler: threads:handler
#     triggers:
#       records:
#         kind: kafka-cluster
#         url: 127.0.0.1:9092
#         numWorkers: 1
#         attributes:
#           topics: [threads]
#           consumerGroup: threads

# says: summed 3

from concurrent.futures import ThreadPoolExecutor


def init_context(context):
    context.user_data.pool = ThreadPoolExecutor(4)


def handler(context, event):
    results = context.user_data.pool.map(lambda n: n * event.offset, range(3))
    context.logger.info(f"summed {sum(results) // 2}") if event.offset == 2 else list(results)
