"""Tracker of one run: items are sent in the background, and are stored in Kafka once `close` has returned."""

import math
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import count
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from headrace.functions.run_tracking.client.outbox import Outbox
from headrace.functions.run_tracking.client.uploads import Uploads

_MAX_QUEUED_ITEMS = 1000
_GIVE_UP_AFTER_SECONDS = 300.0


class RunTracker:
    """Logs one run to a frontier, with Matyan's messages (PyPI: matyan-client). For one event loop.

        async with RunTracker("http://127.0.0.1:53801", "run-1") as tracker:
            await tracker.create_run()
            await tracker.log_metric("loss", 0.3, step=0)
            await tracker.finish()

    A method returns once its item is queued, which waits while `max_queued_items` are unanswered. Any method
    raises TrackerError for an earlier item that was refused; its own item isn't queued then. A tracker that
    has given up raises from then on.
    """

    def __init__(
        self,
        frontier_url: str,
        run_id: str,
        *,
        max_queued_items: int = _MAX_QUEUED_ITEMS,
        give_up_after_seconds: float = _GIVE_UP_AFTER_SECONDS,
        on_acknowledged: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`frontier_url` is http://HOST:PORT; `run_id` matches messages.items.RUN_ID.

        `give_up_after_seconds`: how long an item is resent without any success before the tracker gives up.
        `on_acknowledged` is called with the number of items of each frame that Kafka has.
        """
        self._frontier_url, self.run_id = frontier_url.rstrip("/"), run_id
        self._max_queued_items, self._give_up_after_seconds = max_queued_items, give_up_after_seconds
        self._on_acknowledged = on_acknowledged
        self._client_id, self._numbers = uuid.uuid4().hex, count(1)
        self.acknowledged = 0
        """Number of items that Kafka has."""

    async def __aenter__(self) -> Self:
        """Open the session. The connection is made for the first item."""
        # No total, which is 5 minutes by default in aiohttp: each upload sets a limit by its size.
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=10))
        url = f"{self._frontier_url}/api/v1/ws/runs/{self.run_id}"
        self._outbox = Outbox(
            self._session, url, self._max_queued_items, self._give_up_after_seconds, self._acknowledge
        )
        self._uploads = Uploads(self._session, self._frontier_url, self.run_id, self._give_up_after_seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; if the block has raised, without waiting for replies."""
        if kind is None:
            await self.close()
        else:
            # The caller's own error comes first; waiting for the server could take minutes.
            await self._end()

    # ---- items

    async def create_run(self, *, force_resume: bool = False) -> None:
        """Log that the run begins now. With `force_resume` a finished run goes on."""
        await self._queue("create_run", client_datetime=_now(), force_resume=force_resume)

    async def log_metric(
        self,
        name: str,
        value: float,
        step: int | None = None,
        epoch: int | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Log one point. A point without `step` gets the step after the metric's last one."""
        what = {"name": name, "value": _number(value), "step": step, "epoch": epoch, "context": context}
        await self._queue("log_metric", **what, dtype="float", client_datetime=_now())

    async def log_hparams(self, value: Mapping[str, Any]) -> None:
        """Merge hyperparameters, nested as they may be, into those of the run."""
        await self._queue("log_hparams", value=value)

    async def log_terminal_line(self, line: str, step: int) -> None:
        """Log a line of the terminal; `step` is its number."""
        await self._queue("log_terminal_line", line=line, step=step)

    async def log_record(
        self, message: str, level: int = 20, *, extra_args: Mapping[str, Any] | None = None
    ) -> None:
        """Log a record; `level` is a number of Python's logging."""
        now = datetime.now(UTC).timestamp()
        await self._queue("log_record", message=message, level=level, timestamp=now, extra_args=extra_args)

    async def log_custom_object(  # noqa: PLR0913, PLR0917  # one parameter per field
        self,
        name: str,
        value: Mapping[str, Any],
        step: int | None = None,
        epoch: int | None = None,
        context: Mapping[str, Any] | None = None,
        dtype: str | None = None,
    ) -> None:
        """Log an image, text, distribution or the like, as `dtype` says; `value` is JSON."""
        what = {"name": name, "value": value, "step": step, "epoch": epoch, "context": context}
        await self._queue("log_custom_object", **what, dtype=dtype, client_datetime=_now())

    async def set_property(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        archived: bool | None = None,
        experiment: str | None = None,
    ) -> None:
        """Set properties of the run. A property that is None stays as it is."""
        what = {"name": name, "description": description, "archived": archived, "experiment": experiment}
        await self._queue("set_run_property", **what)

    async def add_tag(self, name: str) -> None:
        """Add a tag to the run."""
        await self._queue("add_tag", tag_name=name)

    async def remove_tag(self, name: str) -> None:
        """Remove a tag from the run."""
        await self._queue("remove_tag", tag_name=name)

    async def upload_artifact(
        self, path: str, data: bytes, content_type: str = "application/octet-stream"
    ) -> None:
        """Upload the bytes, then queue the item that makes them the artifact `path` of the run."""
        key = await self._uploads.put(path, data, content_type)
        # Only now: an item without its bytes would be an artifact that can't be downloaded.
        await self._queue("blob_ref", artifact_path=path, content_type=content_type, s3_key=key)

    async def finish(self) -> None:
        """Log that the run ends now."""
        await self._queue("finish_run", client_datetime=_now())

    # ---- delivery

    async def flush(self) -> None:
        """Wait until all items are answered. Raises TrackerError for those that were refused."""
        await self._outbox.flush()

    async def close(self) -> None:
        """Flush, then close the connection. Raises TrackerError."""
        try:
            await self.flush()
        finally:
            await self._end()

    async def _end(self) -> None:
        await self._outbox.close()
        await self._session.close()

    def _acknowledge(self, items: int) -> None:
        self.acknowledged += items
        self._on_acknowledged(items)

    async def _queue(self, kind: str, **fields: Any) -> None:
        """Encode the item now, so that later changes of its values don't reach it, and queue it.

        Raises TypeError for values that aren't JSON.
        """
        members = {name: value for name, value in fields.items() if value is not None}
        # The id stays the same if the item is sent again: items without a step count once by it.
        item = {"type": kind, **members, "message_id": f"{self._client_id}/{next(self._numbers)}"}
        await self._outbox.put(msgspec.json.encode(item))


def _number(value: float) -> float | str:
    """Return a float, or its name in text: JSON has no NaN and no infinities."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _now() -> datetime:
    return datetime.now(UTC)
