"""What the START frame says."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a worker has to know before its first run."""

    folder: str
    module: str
    function: str
    worker_id: int
    trigger_kind: str
    trigger_name: str
    ack_mode: str = "disable"
    is_cumulative: bool = False
    takes_acks: bool = False
    """Some trigger of the function does."""
    is_batch: bool = False
    decoder: str = ""
    """`module:function`, of chunks that come undecoded; empty where all records come decoded."""
    is_ranges: bool = False
    """What a batch holds is ranges of offsets, not records."""
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What Spark needs to read those; passwords included."""
    spark_url: str = field(default="", repr=False)
    """Of the function's Spark Connect server, token included; empty where the function has none."""
    spark_session_id: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
