"""Logs one run: what it is told goes on by itself, and is there once `close` has returned."""

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

_ROOM_ITEMS = 1000
_PATIENCE_SECONDS = 300.0


class RunTracker:
    """Of one event loop. All methods may wait for room, and raise TrackerError for what was refused before.

    The item of a call that raises isn't taken. A tracker that has given up raises for good.
    """

    def __init__(
        self,
        frontier_url: str,
        run_id: str,
        *,
        room: int = _ROOM_ITEMS,
        patience_seconds: float = _PATIENCE_SECONDS,
        on_acknowledged: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`frontier_url` is http://HOST:PORT; `on_acknowledged` is told how many more are there."""
        self._frontier_url, self.run_id = frontier_url.rstrip("/"), run_id
        self._room, self._patience_seconds = room, patience_seconds
        self._on_acknowledged = on_acknowledged
        self._client_id, self._numbers = uuid.uuid4().hex, count(1)
        self.acknowledged = 0
        """Items."""

    async def __aenter__(self) -> Self:
        """Begins. It connects with the first item."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=10))
        url = f"{self._frontier_url}/api/v1/ws/runs/{self.run_id}"
        self._outbox = Outbox(self._session, url, self._room, self._patience_seconds, self._acknowledge)
        self._uploads = Uploads(self._session, self._frontier_url, self.run_id, self._patience_seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; amid an error of the caller's own, without a wait for replies."""
        if kind is None:
            await self.close()
        else:
            await self._end()

    # ---- what there is to say

    async def create_run(self, *, force_resume: bool = False) -> None:
        """It begins now."""
        await self._say("create_run", client_datetime=_now(), force_resume=force_resume)

    async def log_metric(
        self,
        name: str,
        value: float,
        step: int | None = None,
        epoch: int | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """One point. Without a step it is the next one of those that have none."""
        what = {"name": name, "value": _number(value), "step": step, "epoch": epoch, "context": context}
        await self._say("log_metric", **what, dtype="float", client_datetime=_now())

    async def log_hparams(self, value: Mapping[str, Any]) -> None:
        """Added to those that are there."""
        await self._say("log_hparams", value=value)

    async def log_terminal_line(self, line: str, step: int) -> None:
        """`step` is the line's number."""
        await self._say("log_terminal_line", line=line, step=step)

    async def log_record(
        self, message: str, level: int = 20, *, extra_args: Mapping[str, Any] | None = None
    ) -> None:
        """`level` as Python's logging has them."""
        now = datetime.now(UTC).timestamp()
        await self._say("log_record", message=message, level=level, timestamp=now, extra_args=extra_args)

    async def log_custom_object(  # noqa: PLR0913, PLR0917  # one parameter per field
        self,
        name: str,
        value: Mapping[str, Any],
        step: int | None = None,
        epoch: int | None = None,
        context: Mapping[str, Any] | None = None,
        dtype: str | None = None,
    ) -> None:
        """Such as an image, a text, a distribution: `dtype` says which."""
        what = {"name": name, "value": value, "step": step, "epoch": epoch, "context": context}
        await self._say("log_custom_object", **what, dtype=dtype, client_datetime=_now())

    async def set_property(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        archived: bool | None = None,
        experiment: str | None = None,
    ) -> None:
        """What is None stays as it is."""
        what = {"name": name, "description": description, "archived": archived, "experiment": experiment}
        await self._say("set_run_property", **what)

    async def add_tag(self, name: str) -> None:
        """To the run."""
        await self._say("add_tag", tag_name=name)

    async def remove_tag(self, name: str) -> None:
        """From the run."""
        await self._say("remove_tag", tag_name=name)

    async def upload_artifact(
        self, path: str, data: bytes, content_type: str = "application/octet-stream"
    ) -> None:
        """Returns once the bytes are in the store; what says so of the run goes on as items do."""
        key = await self._uploads.put(path, data, content_type)
        await self._say("blob_ref", artifact_path=path, content_type=content_type, s3_key=key)

    async def finish(self) -> None:
        """It ends now."""
        await self._say("finish_run", client_datetime=_now())

    # ---- how it gets there

    async def flush(self) -> None:
        """Until all is answered. Raises TrackerError for what was refused."""
        await self._outbox.flush()

    async def close(self) -> None:
        """The same, and then no more."""
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

    async def _say(self, kind: str, **fields: Any) -> None:
        """Written now: what changes afterwards is another item's. Raises TypeError for what is no JSON."""
        said = {name: value for name, value in fields.items() if value is not None}
        # The same however often it is sent: what has no step of its own is counted once by it.
        item = {"type": kind, **said, "message_id": f"{self._client_id}/{next(self._numbers)}"}
        await self._outbox.put(msgspec.json.encode(item))


def _number(value: float) -> float | str:
    """JSON has no word for what isn't finite."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _now() -> datetime:
    return datetime.now(UTC)
