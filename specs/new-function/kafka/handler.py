"""Called for each record of the topic, in order within a partition. What raises is tried again."""

from headrace import Context, Event


def handler(context: Context, event: Event) -> None:
    words = (event.body or b"").decode().split()
    context.logger.info_with("a record", words=len(words))
