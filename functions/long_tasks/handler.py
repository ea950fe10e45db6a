"""The handler of long_tasks: run a request's task, then produce a Response with the request's key.

The runtime commits the request once the broker has confirmed the Response. README.md says how to set it up.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from headrace.functions.long_tasks.checkpoints import Progress, checkpoint_name, open_checkpoints
from headrace.functions.long_tasks.communication_pb2 import Request, Response
from headrace.functions.long_tasks.settings import read_task_settings

_RETRY_SECONDS = 1.0


def deliver(context: Any, event: Any, sequence: int, *, is_processed: bool) -> None:
    """Produce the Response for `event`, with the request's key; return once the broker has confirmed it.

    Retries forever. A message that can't be written costs its record an attempt: retrying here makes that
    one attempt for each outage of the topic, however long. Failing at once would spend all attempts within
    seconds and make dead letters of requests that were processed.
    """
    # sequence 0 and false serialize to no bytes at all, which is an empty value and no tombstone.
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
    """A request has had its attempts and was answered with isprocessed = false."""


def init_context(context: Any) -> None:
    """Check all settings before the first request. Raises SettingsError, TypeError."""
    data = context.user_data
    _remove_own_folder_from_path()
    data.settings = read_task_settings(os.environ)
    data.checkpoints = open_checkpoints(os.environ.get("TASK_CHECKPOINTS", ""))
    # A pool is one replica of several workers, or several of one: each has a number of its own.
    data.worker_number = int(os.environ.get("HEADRACE_REPLICA", "0")) + int(context.worker_id)
    data.running = None
    data.answered = {}  # by partition: the request that was answered last
    data.failures = {}  # by partition: offset, and what its task raised last in this worker

    def on_drain() -> None:
        if (running := data.running) is not None:
            running.request_save()

    context.platform.on_signal(on_drain)


def handler(context: Any, event: Any) -> None:
    """Run one attempt of a request. Raises what the task raises, and GivenUpError after the last attempt.

    `onFailure.maxAttempts` is one more than TASK_ATTEMPTS: the last delivery only answers, so that a task
    which kills its worker each time gets an answer too.
    """
    data, place, name = context.user_data, (event.topic, event.shard_id), checkpoint_name(event)
    if data.answered.get(place) == name:
        return  # delivered before; the request came again as it wasn't committed
    progress = Progress(data.checkpoints, name)
    # All attempts have failed; this delivery only answers.
    if event.attempt > data.settings.attempts:
        _give_up(context, event, progress)
    request = _parsed(event)
    _run(context, event, request, progress)
    deliver(context, event, request.sequence, is_processed=True)
    # From here on a redelivery is answered already. Between the confirmation and this line a kill makes a
    # second Response, under the same key.
    data.answered[place] = name
    progress.delete()


def _remove_own_folder_from_path() -> None:
    """Take this folder off sys.path, where the runtime puts the folder of function.yaml first.

    A user's own module `tasks` or `client` would be hidden by the one here.
    """
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
    """Answer with isprocessed = false, before the request becomes a dead letter. Raises GivenUpError."""
    data = context.user_data
    try:
        sequence = _parsed(event).sequence
    except (DecodeError, ValueError):
        sequence = 0  # the client goes by the key
    deliver(context, event, sequence, is_processed=False)
    progress.delete()
    offset, reason = data.failures.pop((event.topic, event.shard_id), (None, ""))
    last = f"; the last one: {reason}" if offset == event.offset else "; the log says how"
    raise GivenUpError(f"the task has failed {data.settings.attempts} times{last}")
