"""Where a client may put an artifact; and, for a store that is a folder, the place itself."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from msgspec import Struct

from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.signatures import UPLOADS
from headrace.functions.run_tracking.blobs.store import BlobError, BlobStore
from headrace.functions.run_tracking.messages.items import RUN_ID, Name
from headrace.web import is_form_type

_MOST_BYTES = 5 * 1024**3  # what one PUT of S3 takes
_PART_BYTES = 256 * 1024


class _Asked(Struct):
    run_id: str
    artifact_path: Name
    content_type: str = "application/octet-stream"


_ASKED = msgspec.json.Decoder(_Asked)


def routes(store: BlobStore) -> list[web.RouteDef]:
    """Of the frontier's server."""

    async def presign(request: web.Request) -> web.Response:
        if is_form_type(request.content_type):
            return _refused(415, "Content-Type has to be application/json")
        try:
            asked = _ASKED.decode(await request.read())
            if not RUN_ID.fullmatch(asked.run_id):
                return _refused(400, f"{asked.run_id[:200]!r} is no id of a run")
            key = f"{asked.run_id}/{asked.artifact_path}"
            upload = await asyncio.to_thread(store.upload, key, asked.content_type)
        except ValueError as error:  # of msgspec too
            return _refused(400, str(error))
        except BlobError as error:
            return _refused(503, str(error))
        said = {"upload_url": upload.url, "s3_key": key, "headers": dict(upload.headers) or None}
        return web.json_response(said)

    found = [web.post("/api/v1/rest/artifacts/presign{end:/?}", presign)]
    return (
        [*found, web.put(UPLOADS + "{key:.+}", _taking(store))] if isinstance(store, FolderStore) else found
    )


def _taking(store: FolderStore) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def take(request: web.Request) -> web.StreamResponse:
        key, query = request.match_info["key"], request.query
        signed = (query.get("expires", ""), query.get("signature", ""))
        if not store.signatures.is_valid(key, request.headers.get("Content-Type", ""), *signed):
            return _refused(403, "the address is not signed for that, or no more: ask for another one")
        try:
            is_whole = await _receive(store, key, request)
        except ValueError as error:  # of what stands there already, too
            return _refused(400, str(error))
        except BlobError as error:
            return _refused(503, str(error))
        if not is_whole:
            return _refused(413, f"a blob is of at most {_MOST_BYTES} bytes")
        return web.json_response({"status": "ok"})

    return take


async def _receive(store: FolderStore, key: str, request: web.Request) -> bool:
    """Whether it was small enough. Disks are written to in a thread, one part after another."""
    if (request.content_length or 0) > _MOST_BYTES:
        return False
    received = 0
    receiving = await asyncio.to_thread(store.receive, key)
    try:
        async for part in request.content.iter_chunked(_PART_BYTES):
            received += len(part)
            if received > _MOST_BYTES:
                return False
            await asyncio.to_thread(receiving.write, part)
        await asyncio.to_thread(receiving.finish)
    finally:
        receiving.end()
    return True


def _refused(status: int, reason: str) -> web.Response:
    return web.json_response({"error": reason}, status=status)
