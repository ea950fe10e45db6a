"""Every attribute of a `kafka-cluster` trigger: type, default, rule, annotation and effect.

Nuclio's names and meanings. Where its documentation and its source differ, the documentation counts.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator

from headrace.runtime.config.shared_attributes import (
    FAILED,
    MaxConcurrency,
    OnFailureSettings,
    max_concurrency,
)
from headrace.runtime.kafka.names import BROKERS_OPTION, BROKERS_VARIABLE
from headrace.runtime.settings.declare import section, setting
from headrace.runtime.settings.types import (
    CHOICE,
    Count,
    Counts,
    Flag,
    Seconds,
    Text,
    Texts,
    WindowSize,
    spelled,
)
from headrace.runtime.streams.settings import AckSemantics, AllocationMode, explicit_ack_semantics
from headrace.triggers.kafka.settings.connection import Addresses, ClusterAttributes
from headrace.triggers.kafka.settings.without_effect import ClientAttributes

DEFAULT_CHANNEL_BUFFER_SIZE = 256
_INT32 = 2**31 - 1  # what Kafka's protocol has room for, also where it counts milliseconds
_DECODER = "headrace.triggers.kafka.format.decoder:decode"

InitialOffset = Annotated[Literal["earliest", "latest"], spelled(), CHOICE]
BalanceStrategy = Annotated[Literal["range", "roundrobin", "sticky", "cooperative"], spelled(), CHOICE]
IsolationLevel = Annotated[Literal["read_uncommitted", "read_committed"], CHOICE]
GroupProtocol = Annotated[Literal["classic", "consumer"], spelled(), CHOICE]
RemoteAssignor = Annotated[Literal["uniform", "range"], spelled(), CHOICE]
Ordering = Annotated[Literal["partition", "key", "none"], CHOICE]
Delivery = Annotated[Literal["events", "ranges"], CHOICE]


def _zero_is_default(size: int) -> int:
    return size or DEFAULT_CHANNEL_BUFFER_SIZE


def _is_a_number(partitions: object) -> str:
    """Return a notice for a number: whoever writes one says how many there are, and all are read."""
    if type(partitions) is not int:
        return ""
    one = f"write [{partitions}] for that one alone"
    return f"a number is no list of partitions, so all are read; {one}"


FetchBytes = Annotated[Count, Ge(0), Le(_INT32)]
Interval = Annotated[Seconds, Gt(0), Le(_INT32 / 1000)]
BufferSize = Annotated[Count, Ge(0), Le(DEFAULT_CHANNEL_BUFFER_SIZE), AfterValidator(_zero_is_default)]


class KafkaAttributes(ClusterAttributes, ClientAttributes):
    """The attributes of one Kafka trigger."""

    topics: Texts = setting(
        "topics",
        (),
        required="a list of at least one topic, or topicPattern",
        required_unless="topicPattern",
        example=["orders"],
        effect="A topic that does not exist gives no events until somebody creates it.",
    )
    brokers: Addresses = setting(
        "brokers",
        (),
        environment=BROKERS_VARIABLE,
        option=BROKERS_OPTION,
        required=f"a list of at least one host:port, or the trigger's url, {BROKERS_OPTION}, --embedded-kafka"
        f" or {BROKERS_VARIABLE}",
        example=["localhost:9092"],
        effect="With one broker only, the function cannot start while that one is down.",
    )
    partitions: Counts = setting(
        "partitions",
        (),
        idle=_is_a_number,
        effect="Partitions that are not listed are never read; the group still assigns them.",
    )
    consumer_group: Text = setting(
        "consumerGroup",
        required="the name that the replicas of the function share",
        example="orders-function",
        effect="Two functions with the same group take each other's partitions.",
    )
    initial_offset: InitialOffset = setting(
        "initialOffset",
        "earliest",
        effect="latest skips what was written before the first start, and after a stop of more than the "
        "broker's offsets.retention.minutes what came meanwhile; earliest handles all of it. "
        "Topics and partitions that appear later are read from their beginning.",
    )
    balance_strategy: BalanceStrategy = setting(
        "balanceStrategy",
        "range",
        annotation="kafka-balance-strategy",
        built_values=("range", "roundrobin", "sticky"),
        effect="All members of a group must offer the same one, or the broker refuses the join.",
    )
    session_timeout_seconds: Interval = setting(
        "sessionTimeout",
        10.0,
        annotation="kafka-session-timeout",
        unit="seconds",
        effect="Too low ends sessions on a short pause, too high leaves a dead replica's partitions idle.",
    )
    heartbeat_interval_seconds: Interval = setting(
        "heartbeatInterval",
        3.0,
        annotation="kafka-heartbeat-interval",
        unit="seconds",
        effect="Too low loads the broker, too high delays rebalances and risks the session.",
    )
    worker_allocation_mode: AllocationMode = setting(
        "workerAllocationMode",
        "pool",
        annotation="kafka-worker-allocation-mode",
        effect="static keeps a partition's state in one worker and may leave other workers idle; explicit"
        " acks need it.",
    )
    fetch_min_bytes: FetchBytes = setting(
        "fetchMin",
        1,
        annotation="kafka-fetch-min",
        unit="bytes",
        effect="0 makes the client spin on empty topics, high values delay events by maxWaitTime.",
    )
    fetch_default_bytes: FetchBytes = setting(
        "fetchDefault",
        1_048_576,
        annotation="kafka-fetch-default",
        unit="bytes",
        effect="Too low costs a request for every few records, too high costs memory per partition.",
    )
    fetch_max_bytes: Annotated[Count, Ge(0)] = setting(
        "fetchMax",
        0,
        annotation="kafka-fetch-max",
        unit="bytes",
        effect="A larger record counts as failed; 0 sets no limit and trusts every producer.",
    )
    channel_buffer_size: BufferSize = setting(
        "channelBufferSize",
        DEFAULT_CHANNEL_BUFFER_SIZE,
        annotation="kafka-channel-buffer-size",
        unit="records",
        effect="What waits decoded ahead of handlers; without maxInFlight also what is handed out and stays"
        " open after its handler. Too low lets workers wait, high values hold more records in memory.",
    )
    max_buffered_bytes: Annotated[Count, Gt(0)] = setting(
        "maxBufferedBytes",
        64 * 1024 * 1024,
        unit="bytes",
        effect="All that a replica holds of fetched records, open requests included, but for one batch of"
        " each broker; too low lets partitions with large batches wait for each other, too high costs that"
        " much memory.",
    )
    max_batch_bytes: Annotated[Count, Gt(0)] = setting(
        "maxBatchBytes",
        64 * 1024 * 1024,
        unit="bytes",
        effect="A batch that opens to more isn't decompressed, and each of its records ends by onFailure; too"
        " low fails good batches, too high lets a few bytes cost that much memory.",
    )
    max_processing_time_seconds: Annotated[Seconds, Gt(0)] = setting(
        "maxProcessingTime",
        300.0,
        annotation="kafka-max-processing-time",
        unit="seconds",
        effect="Too low logs normal records as slow, too high hides a handler that hangs.",
    )
    rebalance_timeout_seconds: Interval = setting(
        "rebalanceTimeout",
        60.0,
        annotation="kafka-rebalance-timeout",
        unit="seconds",
        effect="Too low throws out members that still wait for handlers, too high lets one slow"
        " member hold up the group.",
    )
    rebalance_retry_max: Annotated[Count, Ge(0)] = setting(
        "rebalanceRetryMax",
        4,
        annotation="kafka-rebalance-retry-max",
        effect="Too low reports a busy group as broken, too high hides that joining fails.",
    )
    rebalance_retry_backoff_seconds: Annotated[Seconds, Ge(0)] = setting(
        "rebalanceRetryBackoff",
        2.0,
        annotation="kafka-rebalance-retry-backoff",
        unit="seconds",
        effect="Too low floods the coordinator with joins, too high leaves partitions idle.",
    )
    max_wait_handler_during_rebalance_seconds: Annotated[Seconds, Ge(0)] = setting(
        "maxWaitHandlerDuringRebalance",
        5.0,
        annotation="kafka-max-wait-handler-during-rebalance",
        unit="seconds",
        effect="Too low kills handlers and repeats their records, too high stops the whole group.",
    )
    retry_backoff_seconds: Annotated[Seconds, Ge(0)] = setting(
        "retryBackoff",
        2.0,
        annotation="kafka-retry-backoff",
        unit="seconds",
        effect="Too low floods a failing broker, too high delays the recovery.",
    )
    max_wait_time_seconds: Annotated[Seconds, Ge(0), Le(_INT32 / 1000)] = setting(
        "maxWaitTime",
        0.25,
        annotation="kafka-max-wait-time",
        unit="seconds",
        effect="Too low asks an idle broker all the time, too high delays what fetchMin holds back.",
    )
    ack_window_size: Annotated[WindowSize, Ge(0)] = setting(
        "ackWindowSize",
        0,
        annotation="kafka-window-size",
        old_annotation="custom.nuclio.io/kafka-window-size",
        unit="records",
        effect="That many records per partition run again after every rebalance and restart.",
    )
    isolation_level: IsolationLevel = setting(
        "isolationLevel",
        "read_uncommitted",
        effect="read_uncommitted also delivers aborted transactions, read_committed waits for ends.",
    )

    topic_pattern: Text = setting(
        "topicPattern",
        "",
        quotes_variables=True,
        effect="A regular expression of Python: topics whose whole name matches are read too, also those that"
        " appear later. Too wide a pattern takes in topics of others. A variable inside it stands for its"
        " text, one that is all of it for a pattern.",
    )
    topic_refresh_seconds: Annotated[Seconds, Gt(0)] = setting(
        "topicRefresh",
        60.0,
        unit="seconds",
        effect="How often the broker is asked which topics there are, for topicPattern; every pollInterval"
        " where that is longer. Too low loads the broker, too high finds new topics late.",
    )
    poll_interval_seconds: Annotated[Seconds, Gt(0)] = setting(
        "pollInterval",
        10.0,
        unit="seconds",
        effect="What has changed within it by topicPattern is one rebalance; within topicRefresh where that"
        " is longer. Too low rebalances for each of many topics that are made one by one.",
    )
    on_failure: OnFailureSettings = section("onFailure", OnFailureSettings, effect=FAILED)
    explicit_ack_semantics: AckSemantics = explicit_ack_semantics()
    ack_deadline_seconds: Annotated[Seconds, Ge(0)] = setting(
        "ackDeadline",
        0.0,
        unit="seconds",
        effect="What was handled and isn't acked so long after has failed, by onFailure; 0: never. Too low"
        " fails work that is only slow, without it a lost task holds up its partition for ever.",
    )
    ordering: Ordering = setting(
        "ordering",
        "partition",
        effect="key lets records of different keys in a partition overtake each other, and those without one;"
        " none all of them. Whoever expects the order of the partition finds it broken.",
    )
    max_concurrency: MaxConcurrency = max_concurrency()
    max_in_flight: Annotated[Count, Ge(0)] = setting(
        "maxInFlight",
        0,
        unit="records",
        effect="What is handed out of a partition and not settled, up to the end of its last batch. 0 goes by"
        " the handler's time, some milliseconds of work and 2000 at most; what stays open after its handler"
        " is bounded by channelBufferSize then. Lower holds less, higher lets acks come later.",
    )
    delivery: Delivery = setting(
        "delivery",
        "events",
        effect="With ranges the handler gets offsets to read, not records: first_offset to offset of each"
        " event, both included. It needs batch mode; batchSize counts offsets."
        " functions.spark.ranges_to_dataframe reads them.",
    )
    result_topic: Text = setting(
        "resultTopic",
        "",
        effect="What the handler returns is written there, with its record's key; None is nothing, a list is"
        " several. A record whose result is refused has failed, by onFailure; a topic that isn't there, or"
        " not for this user, is waited for: /ready names it.",
    )
    exactly_once: Flag = setting(
        "exactlyOnce",
        False,
        effect="What a handler produces for a record is written in one transaction with the record's commit:"
        " who reads with read_committed finds it once. It costs a transaction per partition and 0.1 s.",
    )
    group_protocol: GroupProtocol = setting(
        "groupProtocol",
        "classic",
        effect="With consumer (Kafka 4.0 or newer) the broker shares the partitions out, and only those that"
        " move stop; classic stops all of the group's for the longest handler. Sessions, heartbeats and the"
        " strategy are the broker's then.",
    )
    group_remote_assignor: RemoteAssignor = setting(
        "groupRemoteAssignor",
        "uniform",
        effect="How the broker shares them out, with groupProtocol consumer: uniform moves few, range keeps"
        " partitions of the same number in all topics together.",
    )
    group_instance_id: Text = setting(
        "groupInstanceId",
        "",
        effect="With groupProtocol consumer: a replica that comes back under its id within its session moves"
        " nothing; one that doesn't leaves its partitions idle for as long. A second one with the same id"
        " waits for the first: $HOSTNAME stands for the variable, and --replicas adds a number.",
    )

    @classmethod
    def fallbacks(cls, trigger: Any) -> Mapping[str, object]:
        """The trigger's url stands in for brokers."""
        url = getattr(trigger, "url", "")
        return {"brokers": [url]} if url else {}

    def takes(self, partition: int) -> bool:
        """Whether partitions of that number are read, in any topic."""
        return not self.partitions or partition in self.partitions

    def reads(self, topic: str) -> bool:
        """Whether it is among the trigger's own topics, or would be once it is there."""
        return topic in self.topics or self.matches(topic)

    def matches(self, topic: str) -> bool:
        """Whether topicPattern matches; a text that is no pattern (a rule says so) matches nothing."""
        try:
            return bool(self.topic_pattern and re.fullmatch(self.topic_pattern, topic))
        except (re.error, RecursionError, OverflowError):
            return False

    @property
    def all_topics(self) -> str:
        """The trigger's topics in one line for messages, as the file names them."""
        pattern = f"topics that match {self.topic_pattern}" if self.topic_pattern else ""
        return ", ".join(filter(None, (*self.topics, pattern)))

    @property
    def decoder(self) -> str:
        """The decoder of batches for workers; empty where the processor has to look at each record."""
        # Keys and sizes of records are known only once they are decoded, which the processor then has to do.
        is_in_order = self.ordering == "partition"  # else their keys have to be known
        is_plain = is_in_order and not self.fetch_max_bytes
        return _DECODER if is_plain and self.delivery == "events" else ""

    @property
    def event(self) -> str:
        """The class of events that handlers get; empty for a record."""
        from headrace.runtime.wire.start import RANGE_EVENT  # with frames, which no command needs

        return RANGE_EVENT if self.delivery == "ranges" else ""
