"""START, the first frame to a worker: all that it has to know before its first run."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from headrace.runtime.wire.framing import FrameKind, decode_json, json_frame

STREAM_EVENT = "headrace.runtime.worker.api.event:StreamEvent"
RANGE_EVENT = "headrace.runtime.worker.api.event:RangeEvent"


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """Settings of a worker process, and the names of what it imports."""

    folder: str
    module: str
    function: str
    worker_id: int
    trigger_kind: str
    trigger_name: str
    namespace: str = "nuclio"
    function_addresses: Mapping[str, str] = field(default_factory=dict)
    """`host:port`, by name, of functions of its run that may be called; port 0 is a free one."""
    has_event_keys: bool = True
    """Whether events have a `key`, beside their `record_key`: nuclio_sdk's have none."""
    log_level: int = logging.INFO
    """Level of Python's logging: the handler's lines below it aren't sent."""
    ack_mode: str = "disable"
    is_cumulative: bool = False
    topic_aliases: Mapping[str, str] = field(default_factory=dict)
    """Right name of a topic, by others that an ack may have."""
    takes_acks: bool = False
    """Whether some trigger of the function takes explicit acks."""
    running_event_loop: bool = True
    """Whether sync code finds a running event loop."""
    has_terminal: bool = False
    """Whether it reads stdin, and prints where its processor does: somebody debugs the handler."""
    is_batch: bool = False
    max_concurrency: int = 1
    """Number of records that an async handler may be in at once, where they don't come in batches."""
    wants_replies: bool = False
    """Whether what the handler returns is sent back, for each record that didn't raise."""
    result_topic: str = ""
    """Topic to which what the handler returns is produced; empty where it isn't."""
    exactly_once: bool = False
    """Whether what the handler produces is written with the commit of its record, and not to be awaited."""
    outputs: Sequence[str] | None = ()
    """Names that a message may have as its output; None: any."""
    produce_topics: Sequence[tuple[str, str]] | None = None
    """Outputs and topics that a message may go to; None: any."""
    guests: Sequence[tuple[str, str, str, bool]] = ()
    """Kind, name, event and wants_replies of other triggers that share the worker."""
    decoder: str = ""
    """`module:function` that decodes chunks (wire/undecoded.py); empty where all records come decoded."""
    decoder_options: Mapping[str, int] = field(default_factory=dict)
    """Further arguments of the decoder, by name."""
    event: str = STREAM_EVENT
    """`module:Class` of what the handler gets, which implements worker.api.event.Event."""
    # Neither of these is for a log: passwords and tokens are in there.
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options with which Spark reads ranges of offsets; passwords included."""
    spark_url: str = field(default="", repr=False)
    """URL of the function's Spark Connect server, empty where the function has none.

    Its token is included, unless `spark_token_fd` has it.
    """
    spark_token_fd: int = -1
    """Descriptor of a SharedToken, which the worker has inherited; -1 for none."""
    spark_session_id: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def places(self) -> int:
        """Number of places for records that run at once; 0: one after another."""
        return 0 if self.is_batch or self.max_concurrency == 1 else self.max_concurrency


def encode_start(start: WorkerStart) -> bytes:
    """Return a START frame."""
    return json_frame(FrameKind.START, asdict(start))


def decode_start(body: bytes) -> WorkerStart:
    """Return what `encode_start` was given."""
    return WorkerStart(**decode_json(body))
