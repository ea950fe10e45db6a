"""Looks up each name at a slow service, many at a time, and acks each record when its own answer is there."""

import asyncio

import nuclio_sdk


def init_context(context):
    context.user_data.tasks = set()


async def handler(context, event):
    tasks = context.user_data.tasks
    task = asyncio.create_task(look_up(context, event))
    tasks.add(task)  # an event loop by itself keeps no task alive
    task.add_done_callback(tasks.discard)


async def look_up(context, event):
    await asyncio.sleep(0.1 + event.offset % 7 / 10)  # stands for the service
    print(f"found {event.body.decode()}")
    await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
