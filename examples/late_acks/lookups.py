"""Looks up each name at a slow service, many at a time, and acks each record when its own answer is there."""

import asyncio

import nuclio_sdk


async def handler(context, event):
    context.create_task(look_up(context, event), event)  # if it raises, the record has failed


async def look_up(context, event):
    await asyncio.sleep(0.1 + event.offset % 7 / 10)  # stands for the service
    print(f"found {event.body.decode()}")
    await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
