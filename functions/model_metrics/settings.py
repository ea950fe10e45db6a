"""What the function is told by its environment, checked before the first message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_DEFAULT_DATABASE = "sqlite:///model-metrics.sqlite"
_DEFAULT_FEEDBACK_TOPIC = "model-feedback"
_PREFIX = re.compile(r"[A-Za-z0-9._-]+")


class SettingsError(Exception):
    """What is wrong with the environment, in one line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """KAFKA_CONSUMER_TOPIC_PREFIX, FEEDBACK_TOPIC and DATABASE_URL."""

    topic_prefix: str
    """Of the topics that Core 2 writes to."""
    feedback_topic: str
    database: str = field(repr=False)  # may hold a password
    """As SQLAlchemy writes addresses."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Raises SettingsError."""
    prefix = environment.get("KAFKA_CONSUMER_TOPIC_PREFIX", "").strip() or "seldon"
    if not _PREFIX.fullmatch(prefix):
        raise SettingsError(
            f"KAFKA_CONSUMER_TOPIC_PREFIX is {prefix!r}: expected letters, digits, dots, dashes, underscores"
        )
    feedback = environment.get("FEEDBACK_TOPIC", "").strip() or _DEFAULT_FEEDBACK_TOPIC
    return Settings(prefix, feedback, environment.get("DATABASE_URL", "").strip() or _DEFAULT_DATABASE)
