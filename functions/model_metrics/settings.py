"""Settings of model_metrics, read from the environment and checked before the first message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_DEFAULT_DATABASE = "sqlite:///model-metrics.sqlite"
_DEFAULT_FEEDBACK_TOPIC = "model-feedback"
# The characters that Kafka allows in the name of a topic.
_PREFIX = re.compile(r"[A-Za-z0-9._-]+")


class SettingsError(Exception):
    """The environment is wrong; the message says how, in one line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of KAFKA_CONSUMER_TOPIC_PREFIX, FEEDBACK_TOPIC and DATABASE_URL."""

    topic_prefix: str
    """Prefix of the topics that Core 2 writes to."""
    feedback_topic: str
    database: str = field(repr=False)  # may hold a password
    """Address of the database, as SQLAlchemy writes it."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; an empty variable has its default. Raises SettingsError."""
    prefix = environment.get("KAFKA_CONSUMER_TOPIC_PREFIX", "").strip() or "seldon"
    if not _PREFIX.fullmatch(prefix):
        raise SettingsError(
            f"KAFKA_CONSUMER_TOPIC_PREFIX is {prefix!r}: expected letters, digits, dots, dashes, underscores"
        )
    feedback = environment.get("FEEDBACK_TOPIC", "").strip() or _DEFAULT_FEEDBACK_TOPIC
    return Settings(prefix, feedback, environment.get("DATABASE_URL", "").strip() or _DEFAULT_DATABASE)
