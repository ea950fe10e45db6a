"""A processor as the admin server sees it, without functions."""

from typing import Any

from headrace.runtime.admin.status_source import Action, NotHaltedError
from headrace.runtime.errors import HeadraceError


class FakeProcessor:
    """Has partitions of one topic; those in `halted` stand still until somebody acts."""

    def __init__(self, owned: set[int], halted: set[int], topic: str = "orders", reason: str = "") -> None:
        self.reason = reason
        self.topic = topic
        self.owned, self.halted = owned, halted
        self.acted: list[tuple[Action, str, int]] = []

    async def problems(self) -> list[str]:
        return [f"orders/{number} is halted" for number in sorted(self.halted)]

    async def status(self) -> dict[str, Any]:
        record = {"offset": 41, "key": "k", "body": self.reason, "headers": []}
        rows = [
            {"partition": number, "reason": self.reason, "record": record} for number in sorted(self.halted)
        ]
        return {"functions": ["f"], "replicas": [{"triggers": [{"partitions": rows}]}]}

    async def recent(self) -> dict[str, Any]:
        return {"replicas": [{"name": "", "triggers": [], "log": [{"text": self.reason}]}]}

    async def metrics(self) -> bytes:
        return b""

    async def act(self, action: Action, topic: str, partition: int) -> list[str]:
        if topic == "broken":
            raise HeadraceError("the broker is away")
        if topic != self.topic or partition not in self.owned:
            return []
        if partition not in self.halted:
            raise NotHaltedError(f"{topic}/{partition} is not halted")
        self.halted.discard(partition)
        self.acted.append((action, topic, partition))
        return [f"{topic}/{partition}: offset 41 gets {action}"]
