"""Signing in with OAUTHBEARER, by tokens of a token server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import one_line, run
from function_files import load_changed, problems_of
from kafka_records import produce
from replica import lines, replica, wait_until, write_function
from servers import GuardedBroker
from tokens import TokenServer, token_server

from headrace.runtime.kafka.access import OauthSignIn
from headrace.runtime.kafka.oauth import ClientCredentials, TokenRefusedError

WRITES = """
    def handler(context, event):
        write(event.offset)
"""


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with token_server() as server:
        yield server


def _provider(sign_in: OauthSignIn) -> ClientCredentials:
    """What one of aiokafka's clients is given to ask for tokens."""
    provider = sign_in.client_options()["sasl_oauth_token_provider"]
    assert isinstance(provider, ClientCredentials)
    return provider


def _sign_in(server: TokenServer, **changes: Any) -> OauthSignIn:
    return OauthSignIn(**{
        "client_id": "ada", "client_secret": "s3cret word+", "token_url": server.url, "scopes": ("a", "b"),
        **changes,
    })  # fmt: skip


def test_the_name_and_the_secret_go_into_a_header_and_scopes_into_a_field(tokens: TokenServer) -> None:
    token = asyncio.run(_provider(_sign_in(tokens)).token())
    assert token.count(".") == 2
    ((header, fields),) = tokens.asked
    assert header.startswith("Basic ")
    assert fields == {"grant_type": ["client_credentials"], "scope": ["a b"]}


def test_a_server_that_refuses_the_header_gets_fields(tokens: TokenServer) -> None:
    tokens.takes_header = False
    asyncio.run(_provider(_sign_in(tokens, scopes=())).token())
    _, (header, fields) = tokens.asked
    assert header == ""
    assert (fields["client_id"], fields["client_secret"]) == (["ada"], ["s3cret word+"])
    assert "scope" not in fields


@pytest.mark.parametrize(("lifetime", "asked"), [(3600, 1), (5, 2)])
def test_a_token_is_kept_until_shortly_before_it_expires(
    tokens: TokenServer, lifetime: float, asked: int
) -> None:
    tokens.lifetime_seconds = lifetime
    provider = _provider(_sign_in(tokens))

    async def twice() -> None:
        await provider.token()
        await provider.token()

    asyncio.run(twice())
    assert len(tokens.asked) == asked


def test_what_the_token_server_refuses_is_said_without_the_secret(tokens: TokenServer) -> None:
    with pytest.raises(TokenRefusedError, match=r"refuses a token \(401\): check sasl\.oauth") as raised:
        asyncio.run(_provider(_sign_in(tokens, client_secret="hunter2")).token())
    assert "hunter2" not in str(raised.value)


def test_a_function_signs_in_with_tokens_and_a_refused_one_is_one_line(
    guarded: GuardedBroker, tokens: TokenServer, tmp_path: Path
) -> None:
    oauth = {"clientID": "ada", "clientSecret": tokens.secret, "tokenURL": tokens.url, "scopes": ["kafka"]}
    sasl = {"enable": True, "mechanism": "OAUTHBEARER", "handshake": False, "oauth": oauth}
    address, topic = guarded.sasl_bootstrap, guarded.plain.create_topic()
    folder = write_function(tmp_path / "f", WRITES, address, [topic], sasl=sasl)
    produce(guarded.plain, topic, 8)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) >= 8, about=running)
        assert tokens.secret not in running.log + running.get("/api/status")[1]
    sasl["oauth"] = oauth | {"clientSecret": "wr0ng-word"}
    folder = write_function(tmp_path / "g", WRITES, address, [topic], sasl=sasl)
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
