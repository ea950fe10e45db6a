"""What a function's worker is told of its handler, and of the trigger that has it."""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.config.function import FunctionSpec, TriggerSpec
from headrace.runtime.processor.trigger_classes import trigger_class
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.wire.start import STREAM_EVENT, WorkerStart


def policy_of(function: FunctionSpec, spec: TriggerSpec) -> DeliveryPolicy:
    """What its kind makes of its settings, with the function's limits."""
    policy = trigger_class(spec.kind).delivery(spec.settings, spec.fields)
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
    guests: Sequence[tuple[TriggerSpec, DeliveryPolicy]] = (),
) -> WorkerStart:
    """Of worker 0, of which no trigger takes acks; `guests` share it."""
    return WorkerStart(
        folder=str(function.folder.resolve()),
        module=function.handler_module,
        function=function.handler_function,
        worker_id=0,
        namespace=function.namespace,
        function_addresses=function.function_addresses,
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
        guests=[(it.kind, it.name, own.event or STREAM_EVENT, own.wants_replies) for it, own in guests],
        result_topic=policy.result_topic,
        outputs=[it.name for it in function.outputs],
        produce_topics=None if policy.produce_topics is None else sorted(policy.produce_topics),
        exactly_once=policy.exactly_once,
        source_options=policy.source_options,
        spark_url=spark.lasting_url if spark else "",
        spark_token_fd=spark.token_fd if spark else -1,
        spark_session_id=str(uuid.uuid4()) if spark else "",
        spark_conf=spark.conf if spark else {},
    )
