"""The trigger kinds of this installation, found through entry points: runtime imports no trigger."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol, TypeVar

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.checks import NOT_BUILT, nearest
from headrace.runtime.settings.declare import Settings, with_annotations

GROUP = "headrace.triggers"
NUCLIO_KINDS = (
    "http",
    "cron",
    "kafka-cluster",
    "kafka",
    "kinesis",
    "mqtt",
    "iotCoreMqtt",
    "nats",
    "pubsub",
    "eventhub",
    "rabbit-mq",
    "rabbitMq",
    "v3ioStream",
    "v3ioItemPoller",
    "kickstart",
)


class TriggerKind(Protocol):
    """What an entry point of the group names: a class with these attributes.

    `kind` is the canonical name, `aliases` other names that files may use for it, `Settings` the
    model of `attributes`, `annotations` the kind's own for fields that all triggers have.
    """

    @property
    def kind(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def Settings(self) -> type[Settings]: ...  # noqa: N802 - a class


Kind = TypeVar("Kind", bound=TriggerKind)


def installed_kinds() -> dict[str, TriggerKind]:
    """Every installed kind by its canonical name. Raises what a broken trigger's import raises."""
    return by_kind(point.load() for point in entry_points(group=GROUP))


def by_kind(kinds: Iterable[TriggerKind]) -> dict[str, TriggerKind]:
    """The kinds by canonical name."""
    return {kind.kind: kind for kind in kinds}


def trigger_fields(kinds: Iterable[TriggerKind]) -> type[TriggerFields]:
    """The fields that every trigger has, with these kinds' annotations for them."""
    annotations = {name: key for kind in kinds for name, key in kind.annotations.items()}
    return _trigger_fields(tuple(annotations.items()))


@cache  # each model has validators of its own, which take longer to make than a file to read
def _trigger_fields(annotations: tuple[tuple[str, str], ...]) -> type[TriggerFields]:
    return with_annotations(TriggerFields, dict(annotations))


def annotated_models(kinds: Iterable[TriggerKind]) -> list[type[Settings]]:
    """All whose settings `metadata.annotations` may give: what every trigger has, and the kinds' own."""
    kinds = list(kinds)
    return [trigger_fields(kinds), *(kind.Settings for kind in kinds)]


def find_kind(written: str, kinds: Mapping[str, Kind]) -> Kind | None:
    """The kind that a file names by its canonical name or an alias, if it is installed."""
    found = (kind for kind in kinds.values() if written in (kind.kind, *kind.aliases))
    return next(found, None)


def why_not_found(written: str, kinds: Mapping[str, TriggerKind], trigger: str = "") -> str:
    """One line about a kind that find_kind doesn't know, of the trigger that has it."""
    if written in NUCLIO_KINDS and not trigger:
        return f"{written!r} {NOT_BUILT}"
    if written in NUCLIO_KINDS:
        advice = f"leave the trigger out with --set triggers.{trigger}.disabled=true or --only-kafka"
        return f"{written!r} {NOT_BUILT}; {advice}, or write disabled: true in it"
    names = [name for kind in kinds.values() for name in (kind.kind, *kind.aliases)]
    near = nearest(written, [*names, *NUCLIO_KINDS])
    return f"{written!r} is no trigger kind; the nearest known kind is {near}"
