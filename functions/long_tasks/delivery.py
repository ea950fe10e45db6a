"""A Response on its way: there is none before the broker has confirmed it, and no end of trying."""

import time
from typing import Any

from headrace.functions.long_tasks.communication_pb2 import Response

_RETRY_SECONDS = 1.0


def deliver(context: Any, event: Any, sequence: int, *, is_processed: bool) -> None:
    """With the key of its request. Returns once the broker has it, however long its topic can't be written.

    A message that can't be written costs its record an attempt. Waiting here makes that one for each time
    that the topic is away: whoever failed at once would have spent all of them within seconds, and dead
    letters of what was processed.
    """
    # False for sequence 0 is no bytes at all, which is a message like others and no tombstone.
    value = Response(sequence=sequence, isprocessed=is_processed).SerializeToString()
    topic = context.user_data.settings.ack_topic
    while True:
        try:
            context.produce(topic, value, key=event.key).result()
        except Exception as error:
            context.logger.warn_with("the response can't be written, and is tried again", error=str(error))
            time.sleep(_RETRY_SECONDS)
        else:
            return
