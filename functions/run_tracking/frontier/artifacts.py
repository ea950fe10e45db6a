"""Routes for artifacts: signed upload addresses, and for a folder the uploads themselves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.signatures import UPLOADS
from headrace.functions.run_tracking.blobs.store import BlobError, BlobStore, FullError, TooLargeError
from headrace.functions.run_tracking.messages.items import RUN_ID, ContentType, Name
from headrace.web import body_in_parts, is_form_type, whole_body

_PART_BYTES = 256 * 1024
_MOST_REQUEST_BYTES = 1024**2
_STATUSES = {ValueError: 400, TooLargeError: 413, FullError: 507, BlobError: 503}
"""HTTP status by error; the first that matches counts."""


class _PresignRequest(Struct):
    run_id: str
    artifact_path: Name
    content_type: ContentType = "application/octet-stream"
    size_bytes: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Sent by our client, not by the published one."""


_PRESIGN_REQUEST = msgspec.json.Decoder(_PresignRequest)


def routes(store: BlobStore) -> list[web.RouteDef]:
    """Return the routes for `store`."""

    async def presign(request: web.Request) -> web.Response:
        # A page of another site can send a form without asking first; JSON it can't.
        if is_form_type(request.content_type):
            return _refused(415, "Content-Type has to be application/json")
        try:
            wanted = _PRESIGN_REQUEST.decode(await whole_body(request, _MOST_REQUEST_BYTES))
            if not RUN_ID.fullmatch(wanted.run_id):
                return _refused(400, f"{wanted.run_id[:200]!r} is no id of a run")
            key = f"{wanted.run_id}/{wanted.artifact_path}"
            # In a thread: it may walk the whole folder, and this event loop serves all clients of the worker.
            upload = await asyncio.to_thread(store.upload, key, wanted.content_type, wanted.size_bytes)
        except tuple(_STATUSES) as error:  # msgspec's errors are ValueErrors
            return _refusal(error)
        reply = {"upload_url": upload.url, "s3_key": key, "headers": dict(upload.headers) or None}
        return web.json_response(reply)

    found = [web.post("/api/v1/rest/artifacts/presign{end:/?}", presign)]
    return (
        [*found, web.put(UPLOADS + "{key:.+}", _taking(store))] if isinstance(store, FolderStore) else found
    )


def _taking(store: FolderStore) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def take(request: web.Request) -> web.StreamResponse:
        key, content_type = request.match_info["key"], request.headers.get("Content-Type", "")
        most_bytes = store.signatures.most_bytes(key, content_type, request.query)
        if most_bytes is None:
            return _refused(403, "the address is not signed for that, or no more: ask for another one")
        try:
            await _receive(store, key, most_bytes, request)
        except tuple(_STATUSES) as error:  # also if a folder or a blob is in the way
            return _refusal(error)
        return web.json_response({"status": "ok"})

    return take


async def _receive(store: FolderStore, key: str, most_bytes: int, request: web.Request) -> None:
    """Write an upload to the store. Disk writes run in a thread, one part after another."""
    # 0 where the length isn't known before: each part is checked as it comes.
    receiving = await asyncio.to_thread(store.receive, key, most_bytes, request.content_length or 0)
    try:
        async for part in body_in_parts(request, most_bytes, _PART_BYTES):
            await asyncio.to_thread(receiving.write, part)
        await asyncio.to_thread(receiving.finish)
    finally:
        # Also for a client that has gone: what it has sent is discarded, and its reservation ends.
        receiving.end()


def _refusal(error: Exception) -> web.Response:
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    return _refused(status, str(error))


def _refused(status: int, reason: str) -> web.Response:
    return web.json_response({"error": reason}, status=status)
