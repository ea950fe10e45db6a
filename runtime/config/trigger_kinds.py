"""Trigger kinds of this installation, found through entry points: runtime imports no trigger."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.errors import HeadraceError
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import Settings, with_annotations
from headrace.runtime.settings.names import nearest

GROUP = "headrace.triggers"
# Nuclio's names, several for some kinds: a file with one that isn't built is told so.
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


class ContractError(HeadraceError):
    """An installed kind of trigger lacks a part of what docs/triggers.md asks of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerKind:
    """Declaration of a kind of trigger, which an entry point names: what function.yaml may say of one.

    Its module imports no client: whoever validates a file waits for that.
    """

    kind: str
    """The name in `spec.triggers.<name>.kind`."""
    aliases: tuple[str, ...] = ()
    """Other spellings of `kind`."""
    Settings: type[Settings]
    """The declarations of `attributes`, with the rules between them (`Settings.rules`)."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of this kind for fields that all triggers have: key after `nuclio.io/` by field."""
    trigger: str
    """`module:class`, a triggers.base.Trigger, which is imported where one is to run."""


Kind = TypeVar("Kind", bound=TriggerKind)


def installed_kinds() -> dict[str, TriggerKind]:
    """Return every installed kind by its canonical name.

    Raises ContractError, and what the import of a broken declaration raises.
    """
    # Headrace's own kinds are entry points like those of other distributions: there is no list of them.
    return by_kind(map(_declared, entry_points(group=GROUP)))


def _declared(point: EntryPoint) -> TriggerKind:
    found: object = point.load()
    if not isinstance(found, TriggerKind):
        raise ContractError(
            f"trigger kind {point.name}: its entry point has to name a TriggerKind, and {point.value} is none"
        )
    return found


def by_kind(kinds: Iterable[TriggerKind]) -> dict[str, TriggerKind]:
    """Return the kinds by canonical name."""
    return {kind.kind: kind for kind in kinds}


def trigger_fields(kinds: Iterable[TriggerKind]) -> type[TriggerFields]:
    """Return the model of the fields that every trigger has, with these kinds' annotations for them."""
    annotations = {name: key for kind in kinds for name, key in kind.annotations.items()}
    return _trigger_fields(tuple(annotations.items()))


@cache  # each model has validators of its own, which take longer to make than a file to read
def _trigger_fields(annotations: tuple[tuple[str, str], ...]) -> type[TriggerFields]:
    return with_annotations(TriggerFields, dict(annotations))


def annotated_models(kinds: Iterable[TriggerKind]) -> list[type[Settings]]:
    """Return all models whose settings may be annotations: every trigger's fields, and the kinds' own."""
    kinds = list(kinds)
    return [trigger_fields(kinds), *(kind.Settings for kind in kinds)]


def find_kind(written: str, kinds: Mapping[str, Kind]) -> Kind | None:
    """Return the kind that a file names by its canonical name or an alias, if it is installed."""
    found = (kind for kind in kinds.values() if written in (kind.kind, *kind.aliases))
    return next(found, None)


def why_not_found(written: str, kinds: Mapping[str, TriggerKind], trigger: str = "") -> str:
    """Return one line about a kind that find_kind doesn't know, of the trigger that names it."""
    if written in NUCLIO_KINDS and not trigger:
        return f"{written!r} {NOT_BUILT}"
    # A file of Nuclio's with such a trigger can run here without it: say how.
    if written in NUCLIO_KINDS:
        advice = f"leave the trigger out with --set triggers.{trigger}.disabled=true or --only-kafka"
        return f"{written!r} {NOT_BUILT}; {advice}, or write disabled: true in it"
    names = [name for kind in kinds.values() for name in (kind.kind, *kind.aliases)]
    # Known names that aren't built count too: a typing error in one is no reason to suggest another kind.
    near = nearest(written, [*names, *NUCLIO_KINDS])
    return f"{written!r} is no trigger kind; the nearest known kind is {near}"
