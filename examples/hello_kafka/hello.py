"""Greets each name that arrives, in a file per worker process."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("HELLO_FOLDER", "hello-greetings"))


def init_context(context):
    FOLDER.mkdir(exist_ok=True)
    context.user_data.greetings = (FOLDER / f"{os.getpid()}.txt").open("a", buffering=1)


def handler(context, event):
    name = event.body.decode()
    context.user_data.greetings.write(f"{event.shard_id} {event.offset} Hello, {name}!\n")
