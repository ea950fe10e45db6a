"""Takes orders over HTTP and writes them to Kafka; handles them where they come back from there."""

import os

from aiokafka import AIOKafkaProducer


async def init_context(context):
    if context.trigger.kind == "http":  # each trigger has workers of its own; only these produce
        producer = AIOKafkaProducer(bootstrap_servers=os.environ["BROKERS"], acks="all")
        await producer.start()
        context.user_data.producer = producer


async def handler(context, event):
    if event.trigger.kind == "http":
        return await take(context, event)
    context.logger.info_with("order handled", place=event.id, order=event.body.decode())
    return None


async def take(context, event):
    if not event.body:
        return 400, "an order has a body"
    # Awaited before it is answered: whoever reads 202 knows that the order is in Kafka.
    written = await context.user_data.producer.send_and_wait("orders", event.body)
    return 202, {"partition": written.partition, "offset": written.offset}
