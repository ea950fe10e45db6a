"""The command line of `headrace run`, checked."""

from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.processor.admin import TcpAddress


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line of `headrace run`, checked."""

    paths: tuple[Path, ...]
    brokers: tuple[str, ...]
    set_texts: tuple[str, ...]
    embedded_kafka: bool
    replicas: int
    admin: TcpAddress | Path
    replica_name: str
    parent_fd: int | None
    log_level: str
    log_format: str
