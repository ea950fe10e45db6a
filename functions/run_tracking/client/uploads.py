"""The bytes of an artifact, to where the frontier says."""

from http import HTTPStatus
from typing import Any

import aiohttp
from yarl import URL

from headrace.functions.run_tracking.client.outbox import LOST, Backoff, TrackerError

_SECONDS = 60.0
_SLOWEST_BYTES_PER_SECOND = 100_000


class Uploads:
    """For one run."""

    def __init__(
        self, session: aiohttp.ClientSession, frontier_url: str, run_id: str, patience_seconds: float
    ) -> None:
        self._session, self._run_id = session, run_id
        self._presign_url = f"{frontier_url}/api/v1/rest/artifacts/presign"
        self._patience_seconds = patience_seconds

    async def put(self, path: str, data: bytes, content_type: str) -> str:
        """The key under which they are, once they are there. Raises TrackerError."""
        pauses = Backoff(self._patience_seconds)
        asked = {
            "run_id": self._run_id,
            "artifact_path": path,
            "content_type": content_type,
            "size_bytes": len(data),
        }
        while True:
            try:
                said = await self._presign(asked)
                headers = {"Content-Type": content_type, **(said.get("headers") or {})}
                await self._put(said["upload_url"], data, headers)
                return str(said["s3_key"])
            except LOST as error:
                # With an address of its own each time: the last one may be over.
                await pauses.take(f"{path}: {str(error) or type(error).__name__}")
            except (KeyError, TypeError, ValueError) as error:
                raise TrackerError(f"{self._presign_url}: that is no answer: {error!r}") from None

    async def _presign(self, asked: dict[str, Any]) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with self._session.post(self._presign_url, json=asked, timeout=timeout) as answer:
            await _check(answer, asked["artifact_path"])
            said: dict[str, Any] = await answer.json(content_type=None)
            return said

    async def _put(self, url: str, data: bytes, headers: dict[str, str]) -> None:
        timeout = aiohttp.ClientTimeout(total=_SECONDS + len(data) / _SLOWEST_BYTES_PER_SECOND)
        # `encoded`: an address that is written in another way may not be the one that was signed.
        where = URL(url, encoded=True)
        async with self._session.put(where, data=data, headers=headers, timeout=timeout) as answer:
            await _check(answer, where.path)


async def _check(answer: aiohttp.ClientResponse, about: str) -> None:
    """Raises TrackerError for what stays refused, ConnectionError for what may go well another time."""
    if answer.ok:
        return
    said = " ".join((await answer.text(errors="replace"))[:500].split())
    reason = f"{about}: {answer.status} {said}"
    may_come = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status in may_come:
        raise ConnectionError(reason)
    raise TrackerError(reason)
