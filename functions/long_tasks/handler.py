"""A Request, its task, a Response with the same key. The runtime acks the first once the last is confirmed.

What is said here is the order of these things; README.md says how it is set up.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from headrace.functions.long_tasks.checkpoints import Progress, checkpoints_in, name_of
from headrace.functions.long_tasks.communication_pb2 import Request, Response
from headrace.functions.long_tasks.settings import read_task_settings

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


class GivenUpError(Exception):
    """A request has had its attempts and is answered with isprocessed = false."""


def init_context(context: Any) -> None:
    """Find every mistake before the first request. Raises SettingsError, TypeError."""
    data = context.user_data
    _leave_names_to_tasks()
    data.settings = read_task_settings(os.environ)
    data.checkpoints = checkpoints_in(os.environ.get("TASK_CHECKPOINTS", ""))
    # A pool is one replica of several workers, or several of one: each has a number of its own.
    data.worker_number = int(os.environ.get("HEADRACE_REPLICA", "0")) + int(context.worker_id)
    data.running = None
    data.answered = {}  # by partition: the request that was answered last
    data.failures = {}  # by partition: offset, and what its task raised last in this worker

    def on_leaving() -> None:
        if (running := data.running) is not None:
            running.leave()

    context.platform.on_signal(on_leaving)


def handler(context: Any, event: Any) -> None:
    """One attempt. After the last one only the answer is left: a task that kills its worker gets one, too."""
    data, place, name = context.user_data, (event.topic, event.shard_id), name_of(event)
    if data.answered.get(place) == name:
        return  # its response was delivered, but not at once, or not followed by a commit
    progress = Progress(data.checkpoints, name)
    if event.attempt > data.settings.attempts:
        _give_up(context, event, progress)
    request = _parsed(event)
    _run(context, event, request, progress)
    deliver(context, event, request.sequence, is_processed=True)
    data.answered[place] = name
    progress.drop()


def _leave_names_to_tasks() -> None:
    """The folder of function.yaml comes first on the path: a user's own `tasks` or `client` would be ours."""
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != own]


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


def _give_up(context: Any, event: Any, progress: Progress) -> NoReturn:
    """The answer is there before the dead letter is. Raises GivenUpError."""
    data = context.user_data
    try:
        sequence = _parsed(event).sequence
    except (DecodeError, ValueError):
        sequence = 0  # the key says whose it is
    deliver(context, event, sequence, is_processed=False)
    progress.drop()
    offset, reason = data.failures.pop((event.topic, event.shard_id), (None, ""))
    last = f"; the last one: {reason}" if offset == event.offset else "; the log says how"
    raise GivenUpError(f"the task has failed {data.settings.attempts} times{last}")
