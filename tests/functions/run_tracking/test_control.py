"""Control events: what they ask for is done before they are acked, and nothing else."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.functions.retry import retry_until_done
from headrace.functions.run_tracking import handler as function
from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.store import BlobError, Upload
from headrace.functions.run_tracking.control import service
from headrace.functions.run_tracking.messages.envelopes import encode_event
from headrace.testing import LogLine, run_handler

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    """A store with artifacts of three runs, which is the function's."""
    monkeypatch.setenv("BLOBS", str(tmp_path / "blobs"))
    store = FolderStore(tmp_path / "blobs", "http://x")
    for key in ("r/a", "r/b/c", "r2/a", "q/a"):
        receiving = store.receive(key, 100)
        receiving.write(b"1")
        receiving.finish()
        receiving.end()
    return store


class AwayStore:
    """Refuses so many times, and then does what it is told."""

    def __init__(self, store: FolderStore, refusals: int) -> None:
        self._store, self.refusals = store, refusals

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        return self._store.upload(key, content_type)

    def read(self, key: str) -> Iterator[bytes] | None:
        return self._store.read(key)

    def delete(self, keys: Iterable[str]) -> None:
        self._refuse()
        self._store.delete(keys)

    def delete_below(self, prefix: str) -> None:
        self._refuse()
        self._store.delete_below(prefix)

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise BlobError("the store is away")


def left(store: FolderStore) -> list[str]:
    keys = ("r/a", "r/b/c", "r2/a", "q/a")
    return [key for key in keys if list(store.read(key) or ())]


def handled(*bodies: bytes | None) -> Any:
    def init_context(context: Any) -> None:
        context.trigger_name = "control"
        function.init_context(context)

    return run_handler(function.handler, bodies, init_context=init_context)


def warnings_of(run: Any) -> list[LogLine]:
    return [line for line in run.logs if line.level == "warning"]


def event(kind: str, **payload: Any) -> bytes:
    return encode_event(kind, NOW, **payload)


def test_a_deleted_run_takes_all_that_is_below_it_and_nothing_else(blobs: FolderStore) -> None:
    assert handled(event("run_deleted", run_id="r")).failures == []
    assert left(blobs) == ["r2/a", "q/a"]


def test_where_keys_are_listed_no_others_are_deleted(blobs: FolderStore) -> None:
    assert handled(event("run_deleted", run_id="r", blob_keys=["r/a", "r/never"])).failures == []
    assert left(blobs) == ["r/b/c", "r2/a", "q/a"]


def test_an_event_that_comes_again_does_no_harm(blobs: FolderStore) -> None:
    assert handled(*[event("run_deleted", run_id="r")] * 3).failures == []
    assert left(blobs) == ["r2/a", "q/a"]


@pytest.mark.parametrize("key", ["q/a", "r2/a", "r/../q/a", "../outside", "/etc/passwd", "r", ""])
def test_nothing_of_another_run_is_deleted(blobs: FolderStore, tmp_path: Path, key: str) -> None:
    (tmp_path / "outside").write_bytes(b"1")
    handled(event("run_deleted", run_id="r", blob_keys=[key]))
    assert left(blobs) == ["r/a", "r/b/c", "r2/a", "q/a"]
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    "kind", ["experiment_deleted", "tag_deleted", "run_archived", "run_unarchived", "project_deleted"]
)
def test_what_has_no_effect_here_is_passed_by(blobs: FolderStore, kind: str) -> None:
    run = handled(event(kind, run_id="r"))
    assert run.failures == []
    assert warnings_of(run) == []
    assert left(blobs) == ["r/a", "r/b/c", "r2/a", "q/a"]


def test_a_type_that_nobody_knows_is_one_warning(blobs: FolderStore) -> None:
    run = handled(event("run_painted", run_id="r"))
    assert run.failures == []
    (line,) = warnings_of(run)
    assert line.values == {"type": "run_painted"}


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"no JSON",
        b"[]",
        json.dumps({"type": "run_deleted", "timestamp": "2026-05-01T12:00:00Z"}).encode(),
        event("run_deleted"),
        event("run_deleted", run_id=1),
        event("run_deleted", run_id=""),
        event("run_deleted", run_id=".."),
        event("run_deleted", run_id="."),
        event("run_deleted", run_id=".secret"),
        event("run_deleted", run_id="r/b"),
        event("run_deleted", run_id="r", blob_keys="r/a"),
        event("run_deleted", run_id="r", blob_keys=[1]),
    ],
)
def test_what_can_not_be_read_fails_and_deletes_nothing(blobs: FolderStore, body: bytes | None) -> None:
    run = handled(body)
    (failure,) = run.failures
    assert "ItemError" in failure
    assert left(blobs) == ["r/a", "r/b/c", "r2/a", "q/a"]


def test_a_store_that_is_away_is_waited_for_and_spends_no_attempt(
    blobs: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "open_store", lambda _: AwayStore(blobs, refusals=3))
    run = handled(event("run_deleted", run_id="r"))
    assert run.failures == []
    assert len(warnings_of(run)) == 3
    assert left(blobs) == ["r2/a", "q/a"]


def test_pauses_grow_and_have_an_end(blobs: FolderStore) -> None:
    store, pauses = AwayStore(blobs, refusals=10), list[float]()
    logger = type("Logger", (), {"warn_with": lambda *_, **__: None})()
    retry_until_done(lambda: store.delete_below("r/"), str, "it waits", logger, pauses.append)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert left(blobs) == ["r2/a", "q/a"]
