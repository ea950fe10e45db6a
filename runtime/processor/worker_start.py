"""Start message of a function's worker: its handler, and the trigger that has it."""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.processor.trigger_classes import trigger_class
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.wire.start import STREAM_EVENT, WorkerStart


def policy_of(function: FunctionSpec, spec: TriggerSpec) -> DeliveryPolicy:
    """Return the policy that the kind makes of its settings, with the function's limits."""
    policy = trigger_class(spec.kind).delivery(spec.settings, spec.fields)
    # An ack of mlrun's means all records up to its own.
    if function.is_from_mlrun and policy.explicit_ack_semantics == "auto":
        policy = replace(policy, explicit_ack_semantics="cumulative")
    return replace(
        policy,
        event_timeout_seconds=function.event_timeout_seconds,
        produce_topics=function.produce_topics,
        memory_limit_bytes=function.memory_limit_bytes,
    )


def worker_start(
    function: FunctionSpec,
    spec: TriggerSpec,
    policy: DeliveryPolicy,
    spark: SparkLink | None,
    sharers: Sequence[tuple[TriggerSpec, DeliveryPolicy]] = (),
) -> WorkerStart:
    """Return the start message for worker 0, as no trigger that takes acks would send it.

    The caller puts in the worker's own index. `sharers` are triggers that share the workers.
    """
    return WorkerStart(
        folder=str(function.folder.resolve()),
        module=function.handler_module,
        function=function.handler_function,
        worker_id=0,
        namespace=function.namespace,
        function_addresses=function.function_addresses,
        # Lines below this level aren't sent: what nobody shows costs the worker nothing.
        log_level=function.handler_log_level or logging.getLogger().getEffectiveLevel(),
        has_event_keys=not function.is_from_mlrun,
        trigger_kind=spec.kind,
        trigger_name=spec.name,
        ack_mode=policy.ack_mode.value,
        is_cumulative=policy.is_cumulative,
        topic_aliases=policy.topic_aliases,
        running_event_loop=function.fields.running_event_loop,
        has_terminal=function.is_debugged,
        is_batch=policy.batch is not None,
        max_concurrency=policy.max_concurrency,
        decoder=policy.decoder,
        decoder_options=policy.decoder_options,
        event=policy.event or STREAM_EVENT,
        wants_replies=policy.wants_replies,
        guests=[(it.kind, it.name, own.event or STREAM_EVENT, own.wants_replies) for it, own in sharers],
        result_topic=policy.result_topic,
        outputs=[it.name for it in function.outputs],
        produce_topics=None if policy.produce_topics is None else sorted(policy.produce_topics),
        exactly_once=policy.exactly_once,
        source_options=policy.source_options,
        spark_url=spark.lasting_url if spark else "",
        spark_token_fd=spark.token_fd if spark else -1,
        # A session for each start of a worker: the session of one that was killed may still run something.
        spark_session_id=str(uuid.uuid4()) if spark else "",
        spark_conf=spark.conf if spark else {},
    )
