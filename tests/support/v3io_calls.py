"""Calls of a v3io server as clients in Go send them: nothing of any SDK's between a test and the wire."""

import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

Answer = tuple[int, dict[str, Any], dict[str, str]]
"""Status, what the body's JSON says, headers."""


class Calls:
    """Each takes `container/path` first. The ones with names of functions raise for a refusal."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def call(self, function: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Any function, and any outcome."""
        sent = {"X-v3io-function": function, "X-v3io-session-key": "key", **headers}
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        async with self.session.put(f"/{path}", data=data, headers=sent) as answer:
            text = await answer.read()
            content = await answer.json(content_type=None) if text else {}
            return answer.status, content, dict(answer.headers)

    async def create(self, path: str, shard_count: int = 1, hours: int = 24) -> None:
        body = {"ShardCount": shard_count, "RetentionPeriodHours": hours}
        await self._done("CreateStream", f"{path}/", body)

    async def put(self, path: str, *data: bytes, shard: int = 0) -> list[int]:
        """The sequence numbers that the records got."""
        records = [{"Data": base64.b64encode(one).decode(), "ShardId": shard} for one in data]
        content = await self._done("PutRecords", f"{path}/", {"Records": records})
        assert content["FailedRecordCount"] == 0, content
        return [record["SequenceNumber"] for record in content["Records"]]

    async def seek(self, path: str, kind: str = "EARLIEST", **fields: int) -> str:
        """A location, in the shard at `path`."""
        location: str = (await self._done("SeekShard", path, {"Type": kind, **fields}))["Location"]
        return location

    async def get(self, path: str, location: str, limit: int = 1000) -> tuple[list[bytes], str]:
        """The records from there on, and the location behind them."""
        content = await self._done("GetRecords", path, {"Location": location, "Limit": limit})
        return [base64.b64decode(one["Data"]) for one in content["Records"]], content["NextLocation"]

    async def item(self, path: str, names: str = "*") -> dict[str, Any]:
        """Attributes, without their types."""
        content = await self._done("GetItem", path, {"AttributesToGet": names})
        return {name: next(iter(typed.values())) for name, typed in content["Item"].items()}

    async def put_item(
        self, path: str, item: dict[str, Any], condition: str = "", *, replaces: bool = False
    ) -> int:
        """The status: 400 is what a false condition gives."""
        body: dict[str, Any] = {"Item": item}
        if not replaces:
            body["UpdateMode"] = "CreateOrReplaceAttributes"
        if condition:
            body["ConditionExpression"] = condition
        status, _, headers = await self.call("PutItem", path, body)
        assert status != 200 or "X-v3io-transaction-verifier" in headers
        return status

    async def put_object(self, path: str, data: bytes = b"") -> None:
        async with self.session.put(f"/{path}", data=data) as answer:
            assert answer.status == 200

    async def _done(self, function: str, path: str, body: Any) -> dict[str, Any]:
        status, content, _ = await self.call(function, path, body)
        assert status < 300, (function, path, status, content)
        return content


@asynccontextmanager
async def calls(url: str, **options: Any) -> AsyncIterator[Calls]:
    """`options` are of the aiohttp session."""
    async with aiohttp.ClientSession(url, **options) as session:
        yield Calls(session)
