"""Asking an admin server over HTTP."""

import json
from typing import Any

import aiohttp

JSON = {"Content-Type": "application/json"}


async def ask(
    url: str, path: str, method: str = "POST", headers: dict[str, str] | None = None, body: bytes = b"{}"
) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, data=body, headers=headers or JSON) as answer,
    ):
        text = await answer.text()
        return answer.status, json.loads(text) if answer.content_type == "application/json" else text
