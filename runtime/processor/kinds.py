"""The classes behind trigger kinds, held to the contract before anything of theirs runs."""

from typing import cast

from headrace.runtime.config.trigger_kinds import installed_kinds
from headrace.runtime.errors import HeadraceError
from headrace.triggers.base import TakesOutput, Trigger


class ContractError(HeadraceError):
    """An installed kind of trigger lacks a part of triggers.base.Trigger."""


def trigger_class(kind: str) -> type[Trigger]:
    """What an entry point has named. Raises ContractError, with all that is missing."""
    found: object = installed_kinds()[kind]
    left_out = getattr(found, "__abstractmethods__", ())
    if missing := [it for it in contract() if it in left_out or getattr(found, it, None) is None]:
        where = f"{found.__module__}.{found.__qualname__}" if isinstance(found, type) else repr(found)
        raise ContractError(
            f"trigger kind {kind}: {where} has no {', '.join(missing)}; "
            "it has to keep the contract in headrace.triggers.base"
        )
    return cast("type[Trigger]", found)  # entry points are typed by what validation needs of them


def output_kind(kind: str) -> type[TakesOutput]:
    """The same of one that an output is of. Raises ContractError."""
    found: object = trigger_class(kind)
    if not callable(getattr(found, "open_output", None)):
        raise ContractError(f"trigger kind {kind}: it has OutputSettings, and no open_output")
    return cast("type[TakesOutput]", found)


def contract() -> list[str]:
    """The names of all that a kind must have."""
    return sorted({*Trigger.__annotations__, *(name for name in vars(Trigger) if not name.startswith("_"))})
