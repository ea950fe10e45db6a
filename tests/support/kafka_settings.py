"""Attributes of a Kafka trigger, read from a file that is valid otherwise."""

from pathlib import Path
from typing import Any

import yaml
from certificates import Authority
from function_files import load_changed, problems_of

from headrace.triggers.kafka.settings.model import KafkaSettings

AUTHORITY = Authority()
PEM, KEY = AUTHORITY.pair("me")


def nested(attribute: str, value: object) -> dict[str, Any]:
    for key in reversed(attribute.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = yaml.safe_load(yaml.safe_dump(value))


def changed(*attributes: dict[str, Any], annotations: dict[str, str] | None = None, **fields: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        trigger = document["spec"]["triggers"]["t"]
        trigger.update(fields)
        for more in attributes:
            merge(trigger["attributes"], more)
        document["metadata"]["annotations"].update(annotations or {})

    return change


def loaded(folder: Path, *attributes: dict[str, Any], **given: Any) -> KafkaSettings:
    own = load_changed(folder, changed(*attributes, **given)).triggers[0].settings
    assert isinstance(own, KafkaSettings)
    return own


def notices_of(folder: Path, *attributes: dict[str, Any], **given: Any) -> str:
    return "\n".join(load_changed(folder, changed(*attributes, **given)).notices)


def problems_with(folder: Path, *attributes: dict[str, Any], **given: Any) -> str:
    return problems_of(folder, changed(*attributes, **given))


RANGES = {"delivery": "ranges"}
