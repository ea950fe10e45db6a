"""What the START frame says."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from headrace.runtime.wire.records import FrameKind, decode_json, json_frame

STREAM_EVENT = "headrace.runtime.worker.api.event:StreamEvent"
RANGE_EVENT = "headrace.runtime.worker.api.event:RangeEvent"


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a worker has to know before its first run."""

    folder: str
    module: str
    function: str
    worker_id: int
    trigger_kind: str
    trigger_name: str
    namespace: str = "nuclio"
    function_addresses: Mapping[str, str] = field(default_factory=dict)
    """`host:port`, by name, of those functions of its run that may be called; port 0 is a free one."""
    has_event_keys: bool = True
    """Whether events have a `key`, beside their `record_key`: nuclio_sdk's have none."""
    log_level: int = logging.INFO
    """Of Python's logging: the handler's lines below it aren't sent."""
    ack_mode: str = "disable"
    is_cumulative: bool = False
    topic_aliases: Mapping[str, str] = field(default_factory=dict)
    """The right name of a topic, by others that an ack may have."""
    takes_acks: bool = False
    """Some trigger of the function does."""
    running_event_loop: bool = True
    """Whether sync code finds a running event loop."""
    has_terminal: bool = False
    """It reads stdin, and prints where its processor does: somebody debugs the handler."""
    is_batch: bool = False
    max_concurrency: int = 1
    """How many records an async handler may be in at once, where they don't come in batches."""
    wants_replies: bool = False
    """Whether what the handler returns is sent back, for each record that didn't raise."""
    result_topic: str = ""
    """Where what the handler returns is produced; empty where it isn't."""
    exactly_once: bool = False
    """Whether what the handler produces is written with the commit of its record, and not to be awaited."""
    outputs: Sequence[str] | None = ()
    """What a message may name as its output; None: anything."""
    produce_topics: Sequence[tuple[str, str]] | None = None
    """The only places for a message, by output and topic; None: any."""
    guests: Sequence[tuple[str, str, str, bool]] = ()
    """Other triggers that share the worker: their kind, name, event and wants_replies, as above and below."""
    decoder: str = ""
    """`module:function`, of chunks that come undecoded; empty where all records come decoded."""
    decoder_options: Mapping[str, int] = field(default_factory=dict)
    """Its further arguments, by name."""
    event: str = STREAM_EVENT
    """`module:Class` of what the handler gets, which keeps worker.given.event.Event."""
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What Spark needs to read ranges of offsets; passwords included."""
    spark_url: str = field(default="", repr=False)
    """Of the function's Spark Connect server, empty where the function has none. Token included, unless"""
    spark_token_fd: int = -1
    """that is here: a SharedToken's, which the worker has inherited."""
    spark_session_id: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def places(self) -> int:
        """For records that run at once; 0: one after another."""
        return 0 if self.is_batch or self.max_concurrency == 1 else self.max_concurrency


def encode_start(start: WorkerStart) -> bytes:
    """START."""
    return json_frame(FrameKind.START, asdict(start))


def decode_start(body: bytes) -> WorkerStart:
    """What `encode_start` was given."""
    return WorkerStart(**decode_json(body))
