"""What a member tells its group of itself, and never changes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """`remote_assignor`: the broker's, by name. `instance_id`: who it is across restarts; "": nobody."""

    group: str
    rebalance_timeout_seconds: float
    remote_assignor: str = "uniform"
    instance_id: str = ""
