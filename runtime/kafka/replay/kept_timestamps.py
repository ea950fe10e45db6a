"""What a topic would do to a record that is written with the time that it had at first."""

from collections.abc import Mapping

_RETENTION = "retention.ms"
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_DIFFERENCE = "message.timestamp.difference.max.ms"  # before Kafka 4, for each of those two that isn't set
_UNLIMITED = 2**63 - 1


def gives_its_own_time(config: Mapping[str, str]) -> bool:
    """Whatever the producer says: then no timestamp does harm, and none is kept."""
    return config.get("message.timestamp.type") == "LogAppendTime"


def why_lost(timestamp: int, now: int, config: Mapping[str, str]) -> str | None:
    """The topic's setting by which its broker would refuse the record or delete it; times in ms."""
    if gives_its_own_time(config):
        return None
    for name, away in ((_BEFORE, now - timestamp), (_AFTER, timestamp - now)):
        ruling = name if _limit(config, name) < _UNLIMITED else _DIFFERENCE
        if away > _limit(config, ruling):
            return f"would be refused: {ruling} is {_limit(config, ruling)}"
    retention = _number(config, _RETENTION, -1)
    if "delete" in config.get("cleanup.policy", "delete") and 0 <= retention < now - timestamp:
        return f"would be deleted: {_RETENTION} is {retention}"
    return None


def _limit(config: Mapping[str, str], name: str) -> int:
    return _number(config, name, _UNLIMITED)


def _number(config: Mapping[str, str], name: str, otherwise: int) -> int:
    """Brokers that hide a setting, or have another idea of it, say something else."""
    try:
        return int(config.get(name, otherwise))
    except (ValueError, TypeError):
        return otherwise
