"""Called for each batch of records of the topic. What raises is tried again, the whole batch."""

from headrace import Context, Event


def handler(context: Context, events: list[Event]) -> None:
    words = sum(len((event.body or b"").decode().split()) for event in events)
    context.logger.info_with("a batch", records=len(events), words=words)
