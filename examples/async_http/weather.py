"""Asks a service about each city, fifty at a time."""

import os

import aiohttp


async def init_context(context):
    context.user_data.session = aiohttp.ClientSession(os.environ["SERVICE"])


async def handler(context, event):
    async with context.user_data.session.get(f"/weather/{event.body.decode()}") as answer:
        answer.raise_for_status()  # what raises is tried again
        context.logger.info_with(await answer.text(), city=event.body.decode())
