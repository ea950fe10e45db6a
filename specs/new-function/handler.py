"""Called for each record of the topic, in order within a partition. What raises is tried again."""


def handler(context, event):
    words = event.body.decode().split()
    context.logger.info_with("a record", words=len(words))
