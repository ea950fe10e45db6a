"""What the function is told by its environment, checked before the first message."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

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
}
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_BROKER = re.compile(r"[^\s,:]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}")


class SettingsError(Exception):
    """What is wrong with the environment, in one line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Named as the variables are."""

    data_ingestion_topic: str
    control_events_topic: str
    database: str = field(repr=False)  # may hold a password
    """As SQLAlchemy writes addresses."""
    blobs: str
    """A folder, or s3://BUCKET/PREFIX."""
    summaries: str
    """A folder."""
    frontier_host: str
    frontier_port: int
    frontier_url: str
    """As clients reach the frontier, for the addresses that it signs."""
    publish_timeout_seconds: float
    messages_per_transaction: int
    brokers: Sequence[str] = ()
    """Each HOST:PORT."""
    allowed_hosts: Sequence[str] = ()
    """Names that the frontier is asked by, besides this machine's own. None: beyond loopback, any."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Raises SettingsError."""

    def text(name: str) -> str:
        return environment.get(name, "").strip() or _DEFAULTS[name]

    def number(name: str, least: float, most: float) -> float:
        try:
            value = float(text(name))
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise SettingsError(f"{name} is {text(name)!r}: expected a number from {least:g} to {most:g}")
        return value

    host, port = text("FRONTIER_HOST"), int(number("FRONTIER_PORT", 0, 65535))
    url = text("FRONTIER_URL").rstrip("/") or f"http://127.0.0.1:{port}"
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
        names if len(names) > 1 or host in _LOOPBACK else (),
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
