"""Attributes that streams of every kind have."""

from typing import Annotated, Any, Literal

from headrace.runtime.settings.declare import setting
from headrace.runtime.settings.types import CHOICE

AllocationMode = Annotated[Literal["pool", "static"], CHOICE]
AckSemantics = Annotated[Literal["auto", "individual", "cumulative"], CHOICE]


def explicit_ack_semantics() -> Any:
    """The setting."""
    return setting(
        "explicitAckSemantics",
        "auto",
        effect="cumulative settles every lower record too, finished or not, but for those that have failed"
        " and are to be tried again; with individual lower ones that nobody acks stay open. auto is"
        " cumulative for functions that mlrun has written, else individual.",
    )
