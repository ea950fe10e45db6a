"""Uploads of artifacts, to the addresses that the frontier signs."""

from http import HTTPStatus
from typing import Any

import aiohttp
from yarl import URL

from headrace.functions.run_tracking.client.outbox import CONNECTION_ERRORS, Backoff, TrackerError

_SECONDS = 60.0
_SLOWEST_BYTES_PER_SECOND = 100_000


class Uploads:
    """Uploads of one run."""

    def __init__(
        self, session: aiohttp.ClientSession, frontier_url: str, run_id: str, give_up_after_seconds: float
    ) -> None:
        self._session, self._run_id = session, run_id
        self._presign_url = f"{frontier_url}/api/v1/rest/artifacts/presign"
        self._give_up_after_seconds = give_up_after_seconds

    async def put(self, path: str, data: bytes, content_type: str) -> str:
        """Upload bytes; return their key in the blob store. Retries; raises TrackerError."""
        backoff = Backoff(self._give_up_after_seconds)
        request = {
            "run_id": self._run_id,
            "artifact_path": path,
            "content_type": content_type,
            "size_bytes": len(data),
        }
        while True:
            try:
                reply = await self._presign(request)
                headers = {"Content-Type": content_type, **(reply.get("headers") or {})}
                await self._put(reply["upload_url"], data, headers)
                return str(reply["s3_key"])
            except CONNECTION_ERRORS as error:
                # A new address for each attempt: the last one may have expired.
                await backoff.sleep(f"{path}: {str(error) or type(error).__name__}")
            except (KeyError, TypeError, ValueError) as error:
                raise TrackerError(f"{self._presign_url}: that is no answer: {error!r}") from None

    async def _presign(self, request: dict[str, Any]) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with self._session.post(self._presign_url, json=request, timeout=timeout) as response:
            await _check(response, request["artifact_path"])
            reply: dict[str, Any] = await response.json(content_type=None)
            return reply

    async def _put(self, url: str, data: bytes, headers: dict[str, str]) -> None:
        # A large artifact may take as long as a slow line needs for it.
        timeout = aiohttp.ClientTimeout(total=_SECONDS + len(data) / _SLOWEST_BYTES_PER_SECOND)
        # `encoded`: yarl must not requote an address that is signed.
        where = URL(url, encoded=True)
        async with self._session.put(where, data=data, headers=headers, timeout=timeout) as response:
            await _check(response, where.path)


async def _check(response: aiohttp.ClientResponse, about: str) -> None:
    """Raise TrackerError for a final refusal, ConnectionError for one that may not repeat."""
    if response.ok:
        return
    reply = " ".join((await response.text(errors="replace"))[:500].split())
    reason = f"{about}: {response.status} {reply}"
    may_come = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status in may_come:
        raise ConnectionError(reason)
    raise TrackerError(reason)
