"""Both stores of blobs, through real HTTP: what is put where they say is there, and nothing else is."""

import asyncio
import http.client
import json
import socket
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import boto3
import pytest
from aiohttp import web
from moto.server import ThreadedMotoServer

from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.open import open_store
from headrace.functions.run_tracking.blobs.s3 import S3Store
from headrace.functions.run_tracking.blobs.store import BlobError, BlobStore, TooLargeError
from headrace.functions.run_tracking.frontier import artifacts
from headrace.functions.run_tracking.settings import BlobBounds, SettingsError, read_settings
from headrace.runtime.embedded.ports import free_port
from headrace.web import Limits, Server

TYPE = "application/x-weights"
HOSTILE = (
    "r/../other/a",
    "../outside",
    "r/a/../../../outside",
    "/etc/passwd",
    "r//a",
    "r/./a",
    "r/",
    "r",
    "",
    "r/a\0b",
    "r/a\nb",
    "r/" + "x" * 300,
    "r/" + "/".join(["x" * 200] * 6),
)
ODD = ("r/a b.bin", "r/100%25+.bin", "r/ä/ö?x=1&y#z", "r/'\"<>;,@:!$*()", "r/" + "ü" * 120)
PRESIGN = "/api/v1/rest/artifacts/presign"


@contextmanager
def served(build: Callable[[str], list[web.RouteDef]]) -> Iterator[str]:
    """A real server of those routes, which are built for its address."""
    loop, port = asyncio.new_event_loop(), free_port()
    app = web.Application()
    app.add_routes(build(f"http://127.0.0.1:{port}"))
    server = Server(app, Limits())
    loop.run_until_complete(server.listen("127.0.0.1", port, who="the frontier", instead=""))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield server.url
    asyncio.run_coroutine_threadsafe(server.stop(1), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FolderStore]:
    stores = []

    def build(url: str) -> list[web.RouteDef]:
        stores.append(FolderStore(tmp_path / "blobs", url))
        return artifacts.routes(stores[0])

    with served(build):
        yield stores[0]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new one's name; boto3 finds it as it finds any: by its variables."""
    variables = {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "ada",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    name = f"b{time.time_ns()}"
    boto3.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest) -> BlobStore:
    if request.param == "folder":
        found: BlobStore = request.getfixturevalue("folder")
        return found
    return S3Store(request.getfixturevalue("bucket"), "some/where/")


def sent(url: str, data: bytes, method: str = "PUT", **headers: str) -> tuple[int, bytes]:
    """Status and body."""
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def put(store: BlobStore, key: str, data: bytes) -> None:
    upload = store.upload(key, TYPE)
    status, said = sent(upload.url, data, **{"Content-Type": TYPE, **upload.headers})
    assert status == 200, said


def content(store: BlobStore, key: str) -> bytes | None:
    parts = store.read(key)
    return None if parts is None else b"".join(parts)


# ---- the same for both


def test_what_is_put_where_it_is_signed_for_is_read(store: BlobStore) -> None:
    data = bytes(range(256)) * 10_000
    put(store, "r/models/a.bin", data)
    assert content(store, "r/models/a.bin") == data


@pytest.mark.parametrize("key", ODD)
def test_a_key_may_have_any_letters(store: BlobStore, key: str) -> None:
    put(store, key, b"1")
    assert content(store, key) == b"1"


def test_an_empty_blob_is_one(store: BlobStore) -> None:
    put(store, "r/a", b"")
    assert content(store, "r/a") == b""


def test_what_is_put_again_replaces_what_was_there(store: BlobStore) -> None:
    put(store, "r/a", b"first")
    put(store, "r/a", b"second")
    assert content(store, "r/a") == b"second"


def test_nothing_is_where_nothing_was_put(store: BlobStore) -> None:
    put(store, "r/models/a", b"1")
    assert [content(store, key) for key in ("r/b", "r/models", "r/models/a/b", "q/a")] == [None] * 4


def test_keys_are_deleted_and_no_others_and_again(store: BlobStore) -> None:
    for key in ("r/a", "r/b/c", "r/d"):
        put(store, key, b"1")
    for _ in range(2):
        store.delete(["r/a", "r/b/c", "r/never"])
    assert [content(store, key) for key in ("r/a", "r/b/c", "r/d")] == [None, None, b"1"]


def test_all_below_a_run_is_deleted_and_nothing_of_one_whose_name_begins_alike(store: BlobStore) -> None:
    for key in ("r/a", "r/b/c", "r2/a"):
        put(store, key, b"1")
    for _ in range(2):
        store.delete_below("r/")
    assert [content(store, key) for key in ("r/a", "r/b/c", "r2/a")] == [None, None, b"1"]


@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_that_can_not_be_is_refused_in_one_line(store: BlobStore, key: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        store.upload(key, TYPE)


@pytest.mark.parametrize("key", HOSTILE)
def test_nothing_is_where_nothing_can_be(store: BlobStore, key: str) -> None:
    assert content(store, key) is None


def test_an_address_is_for_an_hour_and_for_one_type(store: BlobStore) -> None:
    url = store.upload("r/a", TYPE).url
    query = parse_qs(urlsplit(url).query)
    if "expires" in query:
        assert 3590 < int(query["expires"][0]) - time.time() <= 3600
    else:
        assert query["X-Amz-Expires"] == ["3600"]
        assert query["X-Amz-SignedHeaders"] == ["content-type;host"]


# ---- a folder


def changed(url: str, **changes: str) -> str:
    parts = urlsplit(url)
    query = {name: value for name, (value,) in parse_qs(parts.query).items()} | changes
    return urlunsplit(parts._replace(query=urlencode(query)))


@pytest.mark.parametrize(
    "forge",
    [
        lambda url: changed(url, signature="0" * 64),
        lambda url: changed(url, signature="ü"),
        lambda url: changed(url, expires="99999999999"),
        lambda url: changed(url, expires="-1"),
        lambda url: changed(url, expires="9" * 5000),
        lambda url: changed(url, expires="٣"),
        lambda url: changed(url, most="99999999999"),
        lambda url: url.replace("r/a", "r/b"),
        lambda url: url.partition("?")[0],
    ],
)
def test_a_forged_address_is_refused(folder: FolderStore, forge: Callable[[str], str]) -> None:
    status, _ = sent(forge(folder.upload("r/a", TYPE).url), b"1", **{"Content-Type": TYPE})
    assert status == 403
    assert content(folder, "r/a") is content(folder, "r/b") is None


def test_another_type_than_was_signed_is_refused(folder: FolderStore) -> None:
    assert sent(folder.upload("r/a", TYPE).url, b"1", **{"Content-Type": "text/html"})[0] == 403


def test_an_address_of_yesterday_is_refused(folder: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = time.time() - 86400
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: yesterday)
        url = folder.upload("r/a", TYPE).url
    assert sent(url, b"1", **{"Content-Type": TYPE})[0] == 403


@contextmanager
def bounded(folder: Path, **bounds: int) -> Iterator[FolderStore]:
    """Behind a server."""
    stores = []

    def build(url: str) -> list[web.RouteDef]:
        stores.append(FolderStore(folder, url, BlobBounds(**bounds)))
        return artifacts.routes(stores[0])

    with served(build):
        yield stores[0]


def test_what_is_too_large_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with bounded(tmp_path / "blobs", file_bytes=1000) as folder:
        url = folder.upload("r/a", TYPE).url
        assert sent(url, b"x" * 1000, **{"Content-Type": TYPE})[0] == 200
        status, said = sent(url, b"x" * 1001, **{"Content-Type": TYPE})
        assert status == 413
        assert b"at most 1000, BLOBS_MAX_BYTES_PER_FILE" in said
        assert content(folder, "r/a") == b"x" * 1000
        assert files_of(tmp_path / "blobs") == ["r/a"]


def in_chunks(url: str, *parts: bytes) -> tuple[int, bytes]:
    """Status and body. No head says how long it will be, and no end is said to it."""
    where = urlsplit(url)
    link = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    with closing(link):
        link.putrequest("PUT", f"{where.path}?{where.query}")
        link.putheader("Content-Type", TYPE)
        link.putheader("Transfer-Encoding", "chunked")
        link.endheaders()
        for part in parts:
            link.send(b"%x\r\n%s\r\n" % (len(part), part))
        answer = link.getresponse()
        return answer.status, answer.read()


def test_more_than_was_signed_for_is_refused_as_it_comes(tmp_path: Path) -> None:
    with bounded(tmp_path / "blobs") as folder:
        url = folder.upload("r/a", TYPE, 300_000).url
        assert in_chunks(url, b"x" * 300_000, b"x")[0] == 413
        assert files_of(tmp_path / "blobs") == []
        assert in_chunks(url, b"x" * 300_000, b"")[0] == 200


@pytest.mark.parametrize(
    ("bounds", "status", "says"),
    [
        ({"run_bytes": 10}, 413, b"BLOBS_MAX_BYTES_PER_RUN"),
        ({"all_bytes": 10}, 507, b"BLOBS_MAX_BYTES"),
        ({"free_bytes": 1 << 60}, 507, b"BLOBS_FREE_BYTES"),
    ],
)
def test_what_has_no_room_is_refused_where_it_is_asked_for_and_where_it_comes(
    tmp_path: Path, bounds: dict[str, int], status: int, says: bytes
) -> None:
    asked = {"run_id": "r", "artifact_path": "a", "content_type": TYPE}
    with bounded(tmp_path / "blobs", **bounds) as folder:
        base = folder.upload("r/a", TYPE).url.partition("/api/")[0] + PRESIGN
        for told in ({"size_bytes": 11}, {}):
            body = json.dumps(asked | told).encode()
            code, answer = sent(base, body, "POST", **{"Content-Type": "application/json"})
            if not told:
                assert code == 200
                url = json.loads(answer)["upload_url"]
                code, answer = sent(url, b"x" * 11, **{"Content-Type": TYPE})
            assert (code, says in answer) == (status, True), answer
        assert files_of(tmp_path / "blobs") == []


def test_a_body_that_breaks_off_leaves_nothing(folder: FolderStore, tmp_path: Path) -> None:
    put(folder, "r/a", b"first")
    url = urlsplit(folder.upload("r/a", TYPE).url)
    assert url.hostname
    with socket.create_connection((url.hostname, url.port or 0)) as link:
        head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: x\r\nContent-Type: {TYPE}\r\n"
        link.sendall(head.encode() + b"Content-Length: 100\r\n\r\n" + b"x" * 50)
        time.sleep(0.3)
    deadline = time.monotonic() + 10
    while files_of(tmp_path / "blobs") != ["r/a"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert content(folder, "r/a") == b"first"


def test_an_artifact_is_no_folder_of_others_nor_the_other_way_round(
    folder: FolderStore, tmp_path: Path
) -> None:
    put(folder, "r/a/b", b"1")
    for key in ("r/a", "r/a/b/c"):
        status, said = sent(folder.upload(key, TYPE).url, b"2", **{"Content-Type": TYPE})
        assert status == 400, said
    assert files_of(tmp_path / "blobs") == ["r/a/b"]


def test_two_may_delete_at_once(folder: FolderStore, tmp_path: Path) -> None:
    for number in range(300):
        receiving = folder.receive(f"r/{number % 7}/{number}", 0)
        receiving.finish()
        receiving.end()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(folder.delete_below, ["r/"] * 4))
    assert files_of(tmp_path / "blobs") == []


def test_the_last_blob_of_a_run_takes_its_folders_with_it(folder: FolderStore, tmp_path: Path) -> None:
    for key in ("r/a/b/c", "r/a/d", "q/e"):
        put(folder, key, b"1")
    folder.delete(["r/a/b/c"])
    assert not (tmp_path / "blobs" / "r/a/b").exists()
    folder.delete(["r/a/d"])
    assert not (tmp_path / "blobs" / "r").exists()
    assert files_of(tmp_path / "blobs") == ["q/e"]


def files_of(folder: Path) -> list[str]:
    """Without the secret."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.name != ".secret")


def test_a_secret_is_made_once_whoever_comes_first_and_is_for_nobody_else(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        stores = list(threads.map(lambda _: FolderStore(tmp_path / "blobs", "http://x"), range(32)))
    (url,) = {changed(store.upload("r/a", TYPE).url, expires="1", signature="") for store in stores}
    assert url
    signed = {store.signatures._of("r/a", TYPE, 1, 2) for store in stores}
    assert len(signed) == 1
    secret = tmp_path / "blobs" / ".secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert len(secret.read_bytes()) == 32
    assert [path.name for path in (tmp_path / "blobs").glob(".secret*")] == [".secret"]


# ---- a bucket


def test_an_address_in_a_bucket_is_for_the_bytes_that_were_asked_for(bucket: str) -> None:
    store = S3Store(bucket, "", 1000)
    query = parse_qs(urlsplit(store.upload("r/a", TYPE, 1000).url).query)
    assert query["X-Amz-SignedHeaders"] == ["content-length;content-type;host"]
    with pytest.raises(TooLargeError, match="a blob of 1001 bytes: at most 1000, BLOBS_MAX_BYTES_PER_FILE"):
        store.upload("r/a", TYPE, 1001)


@pytest.mark.full
def test_more_than_a_thousand_are_deleted(bucket: str) -> None:
    client = boto3.client("s3")
    keys = [f"r/{number:04}" for number in range(1203)]
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(
                lambda key: client.put_object(Bucket=bucket, Key=f"p/{key}", Body=b"1"), [*keys, "q/a"]
            )
        )
    store = S3Store(bucket, "p/")
    store.delete(keys[:1100])
    assert [content(store, key) for key in (keys[0], keys[1099], keys[1100])] == [None, None, b"1"]
    for key in keys[:1001]:
        client.put_object(Bucket=bucket, Key=f"p/{key}", Body=b"1")
    store.delete_below("r/")
    left = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [it["Key"] for it in left] == ["p/q/a"]


def test_a_store_that_is_away_or_refuses_is_an_error_of_one_line(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = S3Store(bucket + "-never", "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    away = S3Store(bucket, "")
    works: list[Callable[[BlobStore], Any]] = [
        lambda it: it.read("r/a"),
        lambda it: it.delete(["r/a"]),
        lambda it: it.delete_below("r/"),
    ]
    for store in (missing, away):
        for work in works:
            with pytest.raises(BlobError, match=r"^[^\n]+$"):
                work(store)


# ---- by the environment


def test_a_place_is_a_folder_or_a_bucket(tmp_path: Path, bucket: str) -> None:
    assert isinstance(open_store(read_settings({"BLOBS": str(tmp_path / "new" / "blobs")})), FolderStore)
    store = open_store(read_settings({"BLOBS": f"s3://{bucket}/a/b/"}))
    assert f"/{bucket}/a/b/r/x?" in store.upload("r/x", TYPE).url


@pytest.mark.parametrize("blobs", ["s3://", "s3:///a", "gs://bucket", "http://host/bucket"])
def test_what_is_no_place_is_refused(blobs: str) -> None:
    with pytest.raises(SettingsError, match="BLOBS is"):
        open_store(read_settings({"BLOBS": blobs}))


def test_an_endpoint_that_is_empty_is_none(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")  # as function.yaml has it where nothing is said
    assert "amazonaws.com/" in S3Store(bucket, "").upload("r/a", TYPE).url


# ---- what the frontier answers


def presigned(store: BlobStore, body: bytes) -> tuple[int, dict[str, Any]]:
    with served(lambda _: artifacts.routes(store)) as url:
        status, said = sent(url + PRESIGN, body, "POST", **{"Content-Type": "application/json"})
        return status, json.loads(said)


def test_a_client_is_told_where_to_put_an_artifact(store: BlobStore) -> None:
    asked = {"run_id": "r", "artifact_path": "models/a.bin", "content_type": TYPE, "size_bytes": 7}
    status, said = presigned(store, json.dumps(asked).encode())
    assert status == 200
    assert said["s3_key"] == "r/models/a.bin"
    headers = {"Content-Type": TYPE, **(said["headers"] or {})}
    assert sent(said["upload_url"], b"weights", **headers)[0] == 200
    assert content(store, said["s3_key"]) == b"weights"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"run_id": "r"}',
        b'{"run_id": 1, "artifact_path": "a"}',
        b'{"run_id": "..", "artifact_path": "a"}',
        b'{"run_id": ".secret", "artifact_path": "a"}',
        b'{"run_id": "r/q", "artifact_path": "a"}',
        b'{"run_id": "r", "artifact_path": "../q/a"}',
        b'{"run_id": "r", "artifact_path": ""}',
        b'{"run_id": "r", "artifact_path": "a\\u0000"}',
        b'{"run_id": "r", "artifact_path": "\\ud800"}',
        b'{"run_id": "r", "artifact_path": "a", "size_bytes": -1}',
    ],
)
def test_what_can_not_be_signed_is_refused_in_one_line(tmp_path: Path, body: bytes) -> None:
    status, said = presigned(FolderStore(tmp_path, "http://x"), body)
    assert status == 400
    assert said["error"]
    assert "\n" not in said["error"]


def test_a_request_may_come_in_several_packets(tmp_path: Path) -> None:
    body = b'{"run_id": "r", "artifact_path": "models/a.bin"}'
    with served(lambda _: artifacts.routes(FolderStore(tmp_path, "http://x"))) as url:
        where = urlsplit(url)
        assert where.hostname
        with socket.create_connection((where.hostname, where.port or 0)) as link:
            link.settimeout(10)
            head = f"POST {PRESIGN} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            link.sendall(head.encode() + body[:10])
            time.sleep(0.3)
            link.sendall(body[10:])
            assert link.recv(100).startswith(b"HTTP/1.1 200 ")
