"""What a handler sees of a request: as Nuclio's handlers do."""

import datetime as dt
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from http_function import http_function
from nuclio_sdk import TriggerInfo

from headrace.runtime.wire.records import SentRecord
from headrace.runtime.worker.api.partition_view import PartitionView
from headrace.triggers.http.event import HttpEvent, head_of

SHOWS = """
    import json
    def handler(context, event):
        names = json.loads(event.headers["X-Names"])
        return json.dumps([repr(getattr(event, name)) for name in names])
"""


async def seen(folder: Path, names: list[str], path: str, handler: str = SHOWS, **options: Any) -> list[Any]:
    async with http_function(folder, handler, spec=options.pop("spec", None)) as f:
        headers = {"X-Names": json.dumps(names), **options.pop("headers", {})}
        said = await f.ask(path, headers=headers, **options)
        return [eval(text, {"datetime": dt}) for text in json.loads(said.body)]


async def test_a_request_is_an_event_of_nuclios(tmp_path: Path) -> None:
    names = ["method", "path", "fields", "body", "content_type", "size", "shard_id", "num_shards", "offset"]
    names += ["type", "version", "type_version", "last_in_batch", "attempt"]
    found = await seen(
        tmp_path,
        names,
        "/a%20b/c?x=1&y=%C3%A9&x=2&z",
        method="PUT",
        data=b"\xff",
        headers={"content-type": "a/b"},
    )
    assert found[:6] == ["PUT", "/a b/c", {"x": ["1", "2"], "y": "\u00e9", "z": ""}, b"\xff", "a/b", 1]
    assert found[6:] == [0, 0, 0, "", "", "", False, 1]


async def test_names_of_headers_are_written_as_nuclio_writes_them(tmp_path: Path) -> None:
    headers, url = await seen(tmp_path, ["headers", "url"], "/a?b=c", headers={"x-CUSTOM-id": "7"})
    assert headers["X-Custom-Id"] == "7"
    assert {"Host", "User-Agent"} <= set(headers)
    assert url == f"http://{headers['Host']}/a?b=c"


async def test_it_has_a_time_and_an_id_of_its_own(tmp_path: Path) -> None:
    stamp, first = await seen(tmp_path, ["timestamp", "id"], "/")
    assert math.isclose(stamp.replace(tzinfo=dt.UTC).timestamp(), time.time(), abs_tol=300)
    assert [first] != await seen(tmp_path, ["id"], "/")


@pytest.mark.parametrize(
    ("content_type", "sent", "body"),
    [
        ("application/json", b'{"a": [1]}', {"a": [1]}),
        ("application/json; charset=utf-8", b'{"a": 1}', b'{"a": 1}'),  # as in Nuclio: exactly that type
        ("application/json", b"{not json", b"{not json"),
        ("application/json", b"\xff", b"\xff"),
        ("text/plain", b"{}", b"{}"),
    ],
)
async def test_a_body_is_json_where_it_says_so_and_is(
    tmp_path: Path, content_type: str, sent: bytes, body: object
) -> None:
    found = await seen(
        tmp_path, ["body"], "/", method="POST", data=sent, headers={"Content-Type": content_type}
    )
    assert found == [body]


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"\x1f\x8b\x08\0\0\0\0\0", None),  # by gzip
        (b"[" * 100_000, None),
        ("[1]".encode("utf-16"), None),
        (b'"\xed\xa0\x80"', None),  # half a character, which nothing could write again
        (b"1" * 5000, None),
        (b"", None),
        (b"\xef\xbb\xbf[1]", [1]),
        (b'{"a": 1, "a": [1e999, 12345678901234567890]}', {"a": [math.inf, 12345678901234567890]}),
    ],
)
def test_what_cannot_be_read_as_json_stays_as_it_was_sent(
    sent: bytes, body: object, capfd: pytest.CaptureFixture[str]
) -> None:
    head = head_of("POST", "/", [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")])
    event = HttpEvent(SentRecord(0, 0, -1, head, sent, b""), PartitionView("t", 0, TriggerInfo()), 1)
    assert event.body == (sent if body is None else body)
    assert len(capfd.readouterr().err.splitlines()) == (body is None and sent != b"")


async def test_with_strings_undecoded_all_text_is_bytes(tmp_path: Path) -> None:
    handler = SHOWS.replace('event.headers["X-Names"]', 'event.headers[b"X-Names"]')
    names = ["method", "path", "fields", "content_type", "body", "url", "type", "topic"]
    env = [{"name": "NUCLIO_PYTHON_DECODE_EVENT_STRINGS", "value": "false"}]
    found = await seen(
        tmp_path,
        names,
        "/a?b=c&d=1&d=2",
        handler,
        method="POST",
        data=b"[1]",
        headers={"Content-Type": "application/json"},
        spec={"env": env},
    )
    assert found[:5] == [b"POST", b"/a", {b"b": b"c", b"d": [b"1", b"2"]}, b"application/json", [1]]
    assert isinstance(found[5], bytes)
    assert found[6:] == [b"", b""]


async def test_it_can_be_shown_copied_and_pickled(tmp_path: Path) -> None:
    handler = """
        import copy, json, nuclio_sdk, pickle
        def handler(context, event):
            same = [copy.copy(event), pickle.loads(pickle.dumps(event)), copy.deepcopy(event)]
            shown = json.loads(event.to_json())
            return [shown["path"], shown["method"], *[e.headers == event.headers for e in same],
                    set(vars(nuclio_sdk.Event())) <= set(vars(event))]
    """
    async with http_function(tmp_path, handler) as f:
        assert json.loads((await f.ask("/x")).body) == ["/x", "GET", True, True, True, True]
