"""Where requests come from and where responses go: the four variables, all of them required."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


class SettingsError(Exception):
    """What is wrong with the environment, in one line."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Named as the variables are, in lower case."""

    kafka_bootstrap_server: str
    """host:port, or several with commas."""
    kafka_request_topic: str
    kafka_ack_topic: str
    kafka_consumer_group_id: str

    def environment(self) -> dict[str, str]:
        """The variables as function.yaml has them: without prefix, in upper case."""
        return {name.upper(): getattr(self, name) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(KafkaSettings))


def read_settings(environment: Mapping[str, str], prefix: str = "") -> KafkaSettings:
    """Names count in any case, behind `prefix`. Raises SettingsError, which names all that is missing."""
    given = {name.lower(): value.strip() for name, value in environment.items()}
    found = {name: given.get(f"{prefix}{name}".lower(), "") for name in _NAMES}
    missing = [f"{prefix}{name}".upper() for name in _NAMES if not found[name]]
    if missing:
        be = "is" if len(missing) == 1 else "are"
        raise SettingsError(f"{', '.join(missing)} {be} not set in the environment, and there is no default")
    return KafkaSettings(**found)
