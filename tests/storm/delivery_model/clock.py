"""An event loop whose time passes only when nothing else is left to do."""

import asyncio
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """An hour of waiting takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Seconds since it was made."""
        return self._now

    def _run_once(self) -> None:
        loop: Any = self
        if not loop._ready and loop._scheduled:
            self._now = max(self._now, loop._scheduled[0].when())
        loop.call_soon(lambda: None)  # so that it never waits for a socket
        super()._run_once()  # type: ignore[misc]  # the loop's own step, which typeshed leaves out

    def pass_time(self, seconds: float) -> None:
        """Whatever is due in this time happens."""
        self.run_until_complete(asyncio.sleep(seconds))

    def settle(self) -> None:
        """Whatever can go on without waiting goes on."""

        async def go_on() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        self.run_until_complete(go_on())
