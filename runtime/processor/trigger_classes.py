"""Classes behind trigger kinds, imported and held to the contract before anything of theirs runs."""

from pkgutil import resolve_name
from typing import cast

from headrace.runtime.config.trigger_kinds import ContractError, installed_kinds
from headrace.triggers.base import TakesOutput, Trigger


def trigger_class(kind: str) -> type[Trigger]:
    """Return the class that a kind's declaration names. Raises ContractError, with all that is missing."""
    found = _imported(kind)
    # A class that derives from Trigger has all of its names: those that it doesn't define are abstract.
    left_out = getattr(found, "__abstractmethods__", ())
    if missing := [it for it in contract() if it in left_out or getattr(found, it, None) is None]:
        where = f"{found.__module__}.{found.__qualname__}" if isinstance(found, type) else repr(found)
        raise ContractError(
            f"trigger kind {kind}: {where} has no {', '.join(missing)}; "
            "it has to keep the contract in headrace.triggers.base"
        )
    return cast("type[Trigger]", found)


def _imported(kind: str) -> object:
    name = installed_kinds()[kind].trigger
    try:
        return resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ContractError(f"trigger kind {kind}: {name!r} can't be imported: {error}") from error


def output_class(kind: str) -> type[TakesOutput]:
    """Return the class of a kind that an output is of. Raises ContractError."""
    found: object = trigger_class(kind)
    if not callable(getattr(found, "open_output", None)):
        raise ContractError(f"trigger kind {kind}: it is an OutputKind, and has no open_output")
    return cast("type[TakesOutput]", found)


def contract() -> list[str]:
    """Return the names of all that a kind's class must have."""
    return sorted(name for name in vars(Trigger) if not name.startswith("_"))
