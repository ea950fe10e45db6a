"""Adds up numbers in threes. The first two are acked when the third has come: a crash repeats all three."""

import asyncio

import nuclio
import nuclio_sdk


def init_context(context):
    context.user_data.waiting = {}

    def callback():
        print(
            f"{len(context.user_data.waiting)} numbers wait for a third; they come again, here or elsewhere"
        )
        context.user_data.waiting.clear()

    context.platform.on_signal(callback)


def handler(context, event):
    qualified_offset = nuclio.QualifiedOffset.from_event(event)
    waiting = context.user_data.waiting
    waiting[event.id] = qualified_offset, int(event.body)
    if len(waiting) < 3:
        response = nuclio_sdk.Response()
        response.ensure_no_ack()
        return response
    print(f"three numbers, {sum(number for _, number in waiting.values())} in all")
    loop = asyncio.get_event_loop()
    for qualified_offset, _ in waiting.values():
        loop.run_until_complete(context.platform.explicit_ack(qualified_offset))
    waiting.clear()
    return "acked"
