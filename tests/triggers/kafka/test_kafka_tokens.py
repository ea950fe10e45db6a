"""Signing in with OAUTHBEARER, by tokens of a token server."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from broker import Broker
from command import one_line, run
from function_files import load_changed, problems_of
from kafka_records import produce
from replica import lines, replica, wait_until, write_function

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.kafka.access import OauthSignIn
from headrace.runtime.kafka.oauth import ClientCredentials, TokenRefusedError

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
OAUTHBEARER = {
    "listener.name.sasl.sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": LOGIN,
}
WRITES = """
    def handler(context, event):
        write(event.offset)
"""


@dataclass
class TokenServer:
    """Gives unsigned tokens to whoever knows the secret; `asked` holds each request's header and fields."""

    url: str = ""
    secret: str = "s3cret word+"
    takes_header: bool = True
    lifetime_seconds: float = 3600
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)

    def answer(self, authorization: str, fields: dict[str, list[str]]) -> dict[str, Any] | None:
        self.asked.append((authorization, fields))
        if self.takes_header and authorization:
            known = base64.b64decode(authorization.removeprefix("Basic ")) == b"ada:s3cret+word%2B"
        else:
            known = fields.get("client_secret") == [self.secret]
        if not known or self.secret != "s3cret word+":
            return None
        now = time.time()
        claims = {"sub": "ada", "iat": now, "exp": now + 3600}
        token = ".".join((_coded({"alg": "none"}), _coded(claims), ""))
        return {"access_token": token, "token_type": "bearer", "expires_in": self.lifetime_seconds}


def _coded(claims: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    server = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            answer = server.answer(self.headers.get("Authorization", ""), fields)
            self.send_response(200 if answer else 401)
            self.end_headers()
            self.wfile.write(json.dumps(answer or {"error": "invalid_client"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_port}/token"
        Thread(target=http.serve_forever, daemon=True).start()
        yield server
        http.shutdown()


def _sign_in(server: TokenServer, **changes: Any) -> OauthSignIn:
    return OauthSignIn(**{
        "client_id": "ada", "client_secret": "s3cret word+", "token_url": server.url, "scopes": ("a", "b"),
        **changes,
    })  # fmt: skip


def test_the_name_and_the_secret_go_into_a_header_and_scopes_into_a_field(tokens: TokenServer) -> None:
    token = asyncio.run(ClientCredentials(_sign_in(tokens)).token())
    assert token.count(".") == 2
    ((header, fields),) = tokens.asked
    assert header.startswith("Basic ")
    assert fields == {"grant_type": ["client_credentials"], "scope": ["a b"]}


def test_a_server_that_refuses_the_header_gets_fields(tokens: TokenServer) -> None:
    tokens.takes_header = False
    asyncio.run(ClientCredentials(_sign_in(tokens, scopes=())).token())
    _, (header, fields) = tokens.asked
    assert header == ""
    assert (fields["client_id"], fields["client_secret"]) == (["ada"], ["s3cret word+"])
    assert "scope" not in fields


@pytest.mark.parametrize(("lifetime", "asked"), [(3600, 1), (5, 2)])
def test_a_token_is_kept_until_shortly_before_it_expires(
    tokens: TokenServer, lifetime: float, asked: int
) -> None:
    tokens.lifetime_seconds = lifetime
    provider = ClientCredentials(_sign_in(tokens))

    async def twice() -> None:
        await provider.token()
        await provider.token()

    asyncio.run(twice())
    assert len(tokens.asked) == asked


def test_what_the_token_server_refuses_is_said_without_the_secret(tokens: TokenServer) -> None:
    with pytest.raises(TokenRefusedError, match=r"refuses a token \(401\): check sasl\.oauth") as raised:
        asyncio.run(ClientCredentials(_sign_in(tokens, client_secret="hunter2")).token())
    assert "hunter2" not in str(raised.value)


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedKafka]:
    """A broker that takes unsigned tokens only."""
    monkeypatch.setattr(
        embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | OAUTHBEARER
    )
    kafka = EmbeddedKafka(sasl_users={"ada": "unused"})
    asyncio.run(kafka.start())
    try:
        asyncio.run(kafka.create_topics({"records": 8}))
        yield kafka
    finally:
        asyncio.run(kafka.stop())


def test_a_function_signs_in_with_tokens_and_a_refused_one_is_one_line(
    guarded: EmbeddedKafka, tokens: TokenServer, tmp_path: Path
) -> None:
    oauth = {"clientID": "ada", "clientSecret": tokens.secret, "tokenURL": tokens.url, "scopes": ["kafka"]}
    sasl = {"enable": True, "mechanism": "OAUTHBEARER", "handshake": False, "oauth": oauth}
    address = guarded.sasl_bootstrap
    folder = write_function(tmp_path / "f", WRITES, address, ["records"], sasl=sasl)
    produce(Broker(guarded.bootstrap, "embedded"), "records", 8)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 8, about=running)
        assert tokens.secret not in running.log + running.get("/api/status")[1]
    sasl["oauth"] = oauth | {"clientSecret": "wr0ng-word"}
    folder = write_function(tmp_path / "g", WRITES, address, ["records"], sasl=sasl)
    result = run("run", str(folder), "--admin-port", "0")
    assert f"{tokens.url} refuses a token (401): check sasl.oauth" in one_line(result, code=3)
    assert "wr0ng-word" not in result.stderr


@pytest.mark.parametrize("missing", ["clientID", "clientSecret", "tokenURL"])
def test_tokens_need_a_client_its_secret_and_a_server(tmp_path: Path, missing: str) -> None:
    oauth = {"clientID": "a", "clientSecret": "b", "tokenURL": "https://c/d"}
    del oauth[missing]
    sasl = {"enable": True, "mechanism": "OAUTHBEARER", "oauth": oauth}
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl=sasl))
    assert text.endswith(f"sasl.oauth.{missing}: is required: sasl.enable is true and OAUTHBEARER needs it")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "host/token", "https://me:hunter2@host/token", "https://"]
)
def test_a_token_url_is_a_web_address(tmp_path: Path, url: str) -> None:
    sasl = {"oauth": {"tokenURL": url}}
    text = problems_of(tmp_path, lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl=sasl))
    assert "tokenURL: " in text
    assert "is no address of a token server; expected https://host/path" in text


def test_tokens_that_nobody_uses_are_noticed(tmp_path: Path) -> None:
    sasl = {"enable": True, "user": "u", "password": "p", "oauth": {"clientID": "a"}}
    function = load_changed(tmp_path, lambda d: d["spec"]["triggers"]["t"]["attributes"].update(sasl=sasl))
    (notice,) = function.notices
    assert notice.endswith("clientID: is unused: that takes sasl.enable true and sasl.mechanism OAUTHBEARER")


def test_spark_reads_no_ranges_with_tokens_yet(tmp_path: Path) -> None:
    oauth = {"clientID": "a", "clientSecret": "b", "tokenURL": "https://c/d"}
    more = {"delivery": "ranges", "sasl": {"enable": True, "mechanism": "OAUTHBEARER", "oauth": oauth}}

    def change(document: dict[str, Any]) -> None:
        trigger = document["spec"]["triggers"]["t"]
        trigger["batch"] = {"mode": "enable"}
        trigger["attributes"].update(more)

    assert "sasl.mechanism: with delivery: ranges is known, but not built" in problems_of(tmp_path, change)
