"""A dispatcher with real workers whose messages are confirmed, or refused, by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from refetching import Log
from worker_bench import QUICK, Bench, bench

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.wire.produce import DeliveryCallback, DeliveryReport, Message, not_yet_written


class Cluster(Log):
    """Confirms what it is asked to, when it is asked to."""

    def __init__(self, b: Bench) -> None:
        super().__init__(b)
        self.sent: list[tuple[Message, DeliveryCallback]] = []

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        self.sent.append((message, done))

    def confirm(self, *values: bytes, failure: str = "") -> None:
        """Those of these values; without any, all."""
        for at, (message, done) in enumerate(self.sent.copy()):
            if not values or message.value in values:
                self.sent.remove((message, done))
                done(DeliveryReport(failure=failure) if failure else DeliveryReport(3, at))

    def wait(self) -> None:
        """Nothing can be written now where they go."""
        for message, done in self.sent:
            done(not_yet_written(message))

    @property
    def values(self) -> list[bytes | None]:
        return [message.value for message, _ in self.sent]


@asynccontextmanager
async def producing(
    folder: Path, handler: str, policy: DeliveryPolicy = QUICK, workers: int = 1
) -> AsyncIterator[tuple[Bench, Cluster]]:
    async with bench(folder, handler, policy=policy, workers=workers) as b:
        yield b, Cluster(b)
