"""The backend on one database, without a runtime: what it answers, and what it has published."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nuclio_sdk
import sqlalchemy as sa

from headrace.functions.run_tracking.backend import service
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.functions.run_tracking.blobs.store import BlobError, Upload
from headrace.functions.run_tracking.settings import Settings, read_settings

BASE = "/api/v1/rest"


class MemoryBlobs:
    """A store that is no store. Away while `is_away`."""

    def __init__(self) -> None:
        self.parts: dict[str, list[bytes]] = {}
        self.is_away = False

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        return Upload(f"memory:{key}")

    def read(self, key: str) -> Iterator[bytes] | None:
        if self.is_away:
            raise BlobError("the store is away")
        return iter(self.parts[key]) if key in self.parts else None

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.parts.pop(key, None)

    def delete_below(self, prefix: str) -> None:
        self.delete([key for key in self.parts if key.startswith(prefix)])


@dataclass
class Sent:
    """One message that was produced."""

    topic: str
    value: Any
    key: str | None
    output: str
    failure: Exception | None = None

    def result(self, timeout_seconds: float) -> None:
        assert timeout_seconds > 0
        if self.failure:
            raise self.failure


@dataclass
class Request:
    """As a function sees it."""

    method: str
    path: str
    fields: dict[str, str] = field(default_factory=dict)
    body: Any = b""
    content_type: str = "application/json"


class Backend:
    """`sent` has what was published; `failure` is how the next messages end; `at_send` is called for each."""

    def __init__(self, engine: sa.Engine, folder: Path) -> None:
        self.sent: list[Sent] = []
        self.failure: Exception | None = None
        self.at_send: Callable[[], object] = lambda: None
        self.warnings: list[str] = []
        self.blobs = MemoryBlobs()
        self.settings: Settings = read_settings({"SUMMARIES": str(folder / "summaries")})
        logger = SimpleNamespace(warn_with=lambda text, **values: self.warnings.append(f"{text} {values}"))
        self._context = SimpleNamespace(
            user_data=SimpleNamespace(), logger=logger, Response=nuclio_sdk.Response, produce=self._produce
        )
        self._context.user_data.state = BackendState(self._context, self.settings, engine, self.blobs)

    def ask(self, method: str, path: str, /, body: Any = b"", **fields: str) -> Any:
        return service.handle(self._context, Request(method, path, fields, body))

    def said(self, method: str, path: str, /, body: Any = b"", **fields: str) -> tuple[int, Any]:
        answer = self.ask(method, BASE + path, body, **fields)
        return answer.status_code, json.loads(answer.body, parse_constant=_none_such)

    def read(self, path: str, /, **fields: str) -> Any:
        return self.done("GET", path, **fields)

    def done(self, method: str, path: str, /, body: Any = b"", **fields: str) -> Any:
        status, said = self.said(method, path, body, **fields)
        assert status == 200, said
        return said

    def published(self) -> list[tuple[str, str, Any, str | None]]:
        """Topic, type, payload and key; all went to the one output."""
        assert all(sent.output == "kafka" for sent in self.sent)
        values = [(sent, json.loads(sent.value)) for sent in self.sent]
        return [(sent.topic, value["type"], value["payload"], sent.key) for sent, value in values]

    def _produce(self, topic: str, value: Any, *, key: str | None = None, output: str) -> Sent:
        self.at_send()
        self.sent.append(Sent(topic, value, key, output, self.failure))
        return self.sent[-1]


def _none_such(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
