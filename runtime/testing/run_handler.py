"""`run_handler`, which runs a handler on records: `headrace.testing` is its public name."""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy, FailurePolicy
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.testing.results import LogLine, Range, TrialResult
from headrace.runtime.testing.trial import Trial, TrialInput, kept_logs
from headrace.runtime.wire.produce import Message
from headrace.runtime.wire.start import RANGE_EVENT, STREAM_EVENT, WorkerStart
from headrace.runtime.worker.handler import Handler, is_async, provide_nuclio

ExplicitAckMode: TypeAlias = Literal["disable", "enable", "explicitOnly"]

provide_nuclio()  # what is tested imports it before any worker does


def run_handler(  # noqa: PLR0913  # what function.yaml says of a handler
    handler: Callable[[Any, Any], Any],
    records: Iterable[TrialInput],
    *,
    init_context: Callable[[Any], Any] | None = None,
    explicit_ack_mode: ExplicitAckMode = "disable",
    is_cumulative: bool = False,
    is_batch: bool = False,
    max_attempts: int = 1,
    background_seconds: float = 5.0,
    call_function: Callable[[str, Any], Any] | None = None,
    result_topic: str = "",
    refuse_message: Callable[[Message], str] = lambda _: "",
    spark: SparkLink | str = "",
    source_options: Mapping[str, str] | None = None,
    running_event_loop: bool = True,
) -> TrialResult:
    """Call `handler`, sync or async, on each record in order, or with `is_batch` once on all of them.

    Bytes stand for a Record with this body; where records are Ranges, all are, and it is a batch. A record
    that fails comes again at once, those of a batch together, until it has had `max_attempts`; those behind
    it are handled all the same. Everything happens in a thread with an event loop of its own. Tasks that the
    handler leaves behind get `background_seconds` to end.

    `call_function` answers, by name and event, where the handler calls other functions; without it such a
    call raises RuntimeError. Messages are confirmed at once, unless `refuse_message` says why one can't be
    written; with `result_topic`, what the handler returns is produced there. `spark` is what `spark_server`
    yields, or the address of a Spark Connect server: without it `context.spark` raises AttributeError. With
    it this process is in UTC meanwhile, as a worker with Spark is, unless its environment has TZ.
    `source_options` are the context's. Without `running_event_loop` a sync handler finds none, as with
    `runningEventLoop: false`.

    Raises HandlerNotLoadedError, with its traceback, where init_context raises, and ValueError for offsets
    that go back.
    """
    inputs = list(records)
    is_ranges = _is_ranges(inputs)
    policy = DeliveryPolicy(
        ack_mode=AckMode(explicit_ack_mode),
        explicit_ack_semantics="cumulative" if is_cumulative else "individual",
        failure=FailurePolicy(max_attempts=max_attempts),
        result_topic=result_topic,
    )
    start = WorkerStart(
        # Nothing is loaded from a file: `load` below has the handler.
        folder="",
        module=handler.__module__,
        function="",
        worker_id=0,
        trigger_kind="kafka-cluster",
        trigger_name="test",
        ack_mode=policy.ack_mode.value,
        is_cumulative=policy.is_cumulative,
        takes_acks=policy.ack_mode.is_explicit,
        result_topic=policy.result_topic,
        outputs=None,
        is_batch=is_batch or is_ranges,
        event=RANGE_EVENT if is_ranges else STREAM_EVENT,
        source_options=source_options or {},
        running_event_loop=running_event_loop,
    )
    # A server that was started for tests has a token that its address doesn't show.
    link = SparkLink(spark, "") if isinstance(spark, str) else spark
    if link.url:
        # A session of its own: views and settings of one call aren't there for the next.
        session = str(uuid.uuid4())
        start = replace(
            start, spark_url=link.lasting_url, spark_token_fd=link.token_fd, spark_session_id=session
        )
    trial = Trial(inputs, policy, start, refuse_message)
    logs: list[LogLine] = []

    def prepare(context: Any) -> None:
        context.platform.calls = lambda name, event, *_: (call_function or _refuse_call)(name, event)
        if not link.url:
            context._spark = _NoSpark()  # noqa: SLF001  # users are not to see where their session is from

    def load() -> tuple[Handler, Callable[[Any], Any] | None]:
        return Handler(handler, is_async(handler)), init_context

    zone = _utc() if link.url else nullcontext()
    # A thread of its own: the test may have an event loop running in this one.
    with zone, ThreadPoolExecutor(1, "handler") as thread, kept_logs(logs.append):
        thread.submit(trial.run, load, prepare, background_seconds).result()
    return trial.result(logs)


@contextmanager
def _utc() -> Iterator[None]:
    """Have this process in UTC while the context lasts, as a worker with Spark is, whatever TZ says."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def _is_ranges(inputs: Sequence[TrialInput]) -> bool:
    """Whether records are Ranges. Raises ValueError where only some are."""
    count = sum(isinstance(it, Range) for it in inputs)
    if count not in {0, len(inputs)}:
        raise ValueError(
            "of the records some are Ranges and some are not: a trigger delivers one or the other"
        )
    return count > 0


class _NoSpark:
    """Stands in for a worker's Spark session."""

    @property
    def session(self) -> Any:
        """Raise AttributeError, which says how a test gets a session."""
        raise AttributeError(
            "context.spark: this test has no Spark; give run_handler spark=..., what headrace.testing's "
            "spark_server() yields, or the address of a server, such as sc://localhost:15002"
        )


def _refuse_call(name: str, _: Any) -> Any:
    raise RuntimeError(
        f"call_function({name!r}): no other function runs in a test; give run_handler call_function=..., "
        "which is called with name and event and returns the answer"
    )
