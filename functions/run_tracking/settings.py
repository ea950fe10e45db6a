"""Settings of run_tracking, read from the environment and checked before the first message."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_COUNTS = {
    "BLOBS_MAX_BYTES_PER_FILE": 5 * 1024**3,  # what one PUT of S3 takes
    "BLOBS_MAX_BYTES_PER_RUN": 200 * 1024**3,
    "BLOBS_MAX_FILES_PER_RUN": 100_000,
    "BLOBS_MAX_BYTES": 2 * 1024**4,
    "BLOBS_MAX_FILES": 10_000_000,
    "BLOBS_FREE_BYTES": 1024**3,
    "RUN_MAX_HPARAMS_BYTES": 1024**2,
    "RUN_MAX_HPARAMS": 10_000,
    "RUN_MAX_SEQUENCES": 10_000,
    "RUN_MAX_TAGS": 100,
}
_DEFAULTS = {
    "KAFKA_DATA_INGESTION_TOPIC": "data-ingestion",
    "KAFKA_CONTROL_EVENTS_TOPIC": "control-events",
    "DATABASE_URL": "sqlite:///run-tracking.sqlite",
    "BLOBS": "run-tracking-blobs",
    "SUMMARIES": "run-tracking-summaries",
    "FRONTIER_HOST": "127.0.0.1",
    "FRONTIER_PORT": "53801",
    "FRONTIER_URL": "",
    "FRONTIER_TIMEOUT_SECONDS": "10",
    "INGEST_MAX_MESSAGES_PER_TXN": "1000",
    "ALLOWED_HOSTS": "",
    "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092",
    **{name: str(number) for name, number in _COUNTS.items()},
}
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_MOST = 2**53  # largest whole number that floats hold exactly
_BROKER = re.compile(r"[^\s,:]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}")


class SettingsError(Exception):
    """The environment is wrong; the message says how, in one line."""


@dataclass(frozen=True, slots=True)
class BlobBounds:
    """Limits of the blob store. All but the first hold for a folder, not for a bucket."""

    file_bytes: int = _COUNTS["BLOBS_MAX_BYTES_PER_FILE"]
    run_bytes: int = _COUNTS["BLOBS_MAX_BYTES_PER_RUN"]
    run_files: int = _COUNTS["BLOBS_MAX_FILES_PER_RUN"]
    all_bytes: int = _COUNTS["BLOBS_MAX_BYTES"]
    all_files: int = _COUNTS["BLOBS_MAX_FILES"]
    free_bytes: int = _COUNTS["BLOBS_FREE_BYTES"]
    """Bytes that stay free on the disk."""


@dataclass(frozen=True, slots=True)
class RunBounds:
    """Limits of one run."""

    hparams_bytes: int = _COUNTS["RUN_MAX_HPARAMS_BYTES"]
    """Bytes of all its hyperparameters, as JSON."""
    hparams: int = _COUNTS["RUN_MAX_HPARAMS"]
    """Names of hyperparameters, nested ones included."""
    sequences: int = _COUNTS["RUN_MAX_SEQUENCES"]
    """Metrics, images and the like, each in each context."""
    tags: int = _COUNTS["RUN_MAX_TAGS"]
    artifacts: int = _COUNTS["BLOBS_MAX_FILES_PER_RUN"]

    def say_hparams(self, size: int, names: int) -> str:
        """Return why hyperparameters are refused, in one line."""
        return (
            f"hyperparameters of {size} bytes and {names} names: at most {self.hparams_bytes} bytes and"
            f" {self.hparams} names, RUN_MAX_HPARAMS_BYTES and RUN_MAX_HPARAMS"
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The function's settings; README.md lists the variables."""

    data_ingestion_topic: str
    control_events_topic: str
    database: str = field(repr=False)  # may hold a password
    """Address of the database, as SQLAlchemy writes it."""
    blobs: str
    """Folder of the blobs, or s3://BUCKET/PREFIX."""
    summaries: str
    """Folder of the summaries."""
    frontier_host: str
    frontier_port: int
    frontier_url: str
    """Address at which clients reach the frontier, for the upload addresses that it signs."""
    publish_timeout_seconds: float
    messages_per_transaction: int
    brokers: Sequence[str] = ()
    """Kafka's brokers, each HOST:PORT."""
    allowed_hosts: Sequence[str] = ()
    """Host names that the frontier answers to, besides this machine's own.

    Empty where it listens beyond loopback and no name is given: any name then.
    """
    blob_bounds: BlobBounds = field(default_factory=BlobBounds)
    run_bounds: RunBounds = field(default_factory=RunBounds)


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; an empty variable has its default. Raises SettingsError."""

    def text(name: str) -> str:
        return environment.get(name, "").strip() or _DEFAULTS[name]

    def number(name: str, least: float, most: float) -> float:
        try:
            value = float(text(name))  # accepts 5e9
        except ValueError:
            # Out of the range, so that the line below is raised for text as well.
            value = least - 1
        if not least <= value <= most:
            raise SettingsError(f"{name} is {text(name)!r}: expected a number from {least:g} to {most:g}")
        return value

    def count(name: str, least: int = 1) -> int:
        return int(number(name, least, _MOST))

    host, port = text("FRONTIER_HOST"), int(number("FRONTIER_PORT", 0, 65535))
    url = text("FRONTIER_URL").rstrip("/") or f"http://127.0.0.1:{port}"
    # The name in FRONTIER_URL is always allowed: clients are given addresses with it.
    names = *filter(None, map(str.strip, text("ALLOWED_HOSTS").split(","))), _name_in(url)
    return Settings(
        text("KAFKA_DATA_INGESTION_TOPIC"),
        text("KAFKA_CONTROL_EVENTS_TOPIC"),
        text("DATABASE_URL"),
        text("BLOBS"),
        text("SUMMARIES"),
        host,
        port,
        url,
        number("FRONTIER_TIMEOUT_SECONDS", 0.1, 3600),
        int(number("INGEST_MAX_MESSAGES_PER_TXN", 1, 100_000)),
        _brokers(text("KAFKA_BOOTSTRAP_SERVERS")),
        # Beyond loopback any name is right, unless some are given.
        names if len(names) > 1 or host in _LOOPBACK else (),
        BlobBounds(
            count("BLOBS_MAX_BYTES_PER_FILE"),
            count("BLOBS_MAX_BYTES_PER_RUN"),
            count("BLOBS_MAX_FILES_PER_RUN"),
            count("BLOBS_MAX_BYTES"),
            count("BLOBS_MAX_FILES"),
            count("BLOBS_FREE_BYTES", least=0),
        ),
        RunBounds(
            count("RUN_MAX_HPARAMS_BYTES"),
            count("RUN_MAX_HPARAMS"),
            count("RUN_MAX_SEQUENCES"),
            count("RUN_MAX_TAGS"),
            count("BLOBS_MAX_FILES_PER_RUN"),
        ),
    )


def _name_in(url: str) -> str:
    try:
        name = urlsplit(url).hostname
    except ValueError:
        name = None
    if name is None:
        raise SettingsError(f"FRONTIER_URL is {url!r}: expected one such as https://runs.example")
    return name


def _brokers(text: str) -> tuple[str, ...]:
    brokers = tuple(part.strip() for part in text.split(","))
    for broker in brokers:
        if not _BROKER.fullmatch(broker):
            raise SettingsError(f"KAFKA_BOOTSTRAP_SERVERS: {broker!r} is no HOST:PORT")
    return brokers
