"""A Request, its task, a Response with the same key. The runtime acks the first once the last is confirmed.

What is said here is the order of these things; README.md says how it is set up.
"""

import os
from typing import Any

from google.protobuf.message import DecodeError

from headrace.functions.long_tasks.checkpoints import checkpoints_in, name_of
from headrace.functions.long_tasks.communication_pb2 import Request, Response
from headrace.functions.long_tasks.progress import Progress
from headrace.functions.long_tasks.tasks import read_task_settings


class GivenUpError(Exception):
    """A request has had its attempts and is answered with isprocessed = false."""


def init_context(context: Any) -> None:
    """Find every mistake before the first request. Raises SettingsError, TypeError."""
    data = context.user_data
    data.settings = read_task_settings(os.environ)
    data.checkpoints = checkpoints_in(os.environ.get("TASK_CHECKPOINTS", ""))
    # A pool is one replica of several workers, or several of one: each has a number of its own.
    data.worker_number = int(os.environ.get("HEADRACE_REPLICA", "0")) + int(context.worker_id)
    data.running = None
    data.failures = {}  # by partition: offset, and what its task raised last in this worker

    def on_leaving() -> None:
        if (running := data.running) is not None:
            running.leave()

    context.platform.on_signal(on_leaving)


def handler(context: Any, event: Any) -> None:
    """One attempt. After the last one only the answer is left: a task that kills its worker gets one, too."""
    if event.attempt > context.user_data.settings.attempts:
        _give_up(context, event)
    progress = Progress(context.user_data.checkpoints, name_of(event))
    request = _parsed(event)
    _run(context, event, request, progress)
    sent = _answer(context, event, request.sequence, is_processed=True)
    if progress.saved is not None:  # until then somebody may have to take it up
        sent.result()
        progress.drop()


def _parsed(event: Any) -> Request:
    if event.body is None:
        raise ValueError("a tombstone is no request")
    return Request.FromString(event.body)


def _run(context: Any, event: Any, request: Request, progress: Progress) -> None:
    data = context.user_data
    data.running = progress
    try:
        data.settings.task(request, progress, worker_number=data.worker_number, **data.settings.arguments)
    except Exception as error:
        data.failures[event.topic, event.shard_id] = event.offset, repr(error)
        raise
    finally:
        data.running = None


def _give_up(context: Any, event: Any) -> None:
    """The answer is there before the dead letter is. Raises GivenUpError."""
    data = context.user_data
    try:
        sequence = _parsed(event).sequence
    except (DecodeError, ValueError):
        sequence = 0  # the key says whose it is
    _answer(context, event, sequence, is_processed=False).result()
    Progress(data.checkpoints, name_of(event)).drop()
    offset, reason = data.failures.pop((event.topic, event.shard_id), (None, ""))
    last = f"; the last one: {reason}" if offset == event.offset else "; the log says how"
    raise GivenUpError(f"the task has failed {data.settings.attempts} times{last}")


def _answer(context: Any, event: Any, sequence: int, *, is_processed: bool) -> Any:
    """False for sequence 0 is no bytes at all, which is a message like others and no tombstone."""
    response = Response(sequence=sequence, isprocessed=is_processed)
    topic = context.user_data.settings.ack_topic
    return context.produce(topic, response.SerializeToString(), key=event.key)
