"""Called for each record of the topic, fifty at once in a worker. What raises is tried again."""

import asyncio

from headrace import Context, Event


async def handler(context: Context, event: Event) -> None:
    words = await look_up((event.body or b"").decode())
    context.logger.info_with("a record", words=words)


async def look_up(text: str) -> int:
    """Stands for a service that takes its time."""
    await asyncio.sleep(0.01)
    return len(text.split())
