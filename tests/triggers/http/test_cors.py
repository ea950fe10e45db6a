"""Which pages of other origins may ask what."""

from pathlib import Path

import pytest
from http_function import http_function

from headrace.triggers.http.cross_origin import Cors
from headrace.triggers.http.settings import CorsSettings

SOME = CorsSettings(enabled=True, allow_origins=("https://a.example",), expose_headers=("X-A",))
ASKS = {"Origin": "https://A.example", "Access-Control-Request-Method": "put"}


def test_where_it_is_off_nothing_is_refused_and_nothing_told() -> None:
    cors = Cors(CorsSettings())
    assert not cors.is_preflight("OPTIONS", ASKS)
    assert not cors.is_refused({"Origin": "https://b.example"})
    assert cors.response_headers(ASKS) == {}


def test_a_preflight_is_told_what_it_may() -> None:
    cors = Cors(SOME)
    assert cors.is_preflight("OPTIONS", ASKS)
    response_headers = cors.preflight({**ASKS, "Access-Control-Request-Headers": "content-type, ACCEPT"})
    assert response_headers is not None
    assert response_headers["Access-Control-Allow-Origin"] == "https://A.example"
    assert "PUT" in response_headers["Access-Control-Allow-Methods"]
    assert response_headers["Access-Control-Max-Age"] == "5"


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "https://b.example"},
        {"Origin": "null"},
        {"Access-Control-Request-Method": "BREW"},
        {"Access-Control-Request-Headers": "X-Other"},
    ],
)
def test_a_preflight_for_what_it_may_not_is_refused(changed: dict[str, str]) -> None:
    assert Cors(SOME).preflight({**ASKS, **changed}) is None


def test_a_request_without_an_origin_is_nobodys_page() -> None:
    assert not Cors(SOME).is_refused({})
    assert Cors(SOME).response_headers({}) == {"Vary": "Origin"}


async def test_a_browser_is_answered_and_another_origin_refused(tmp_path: Path) -> None:
    cors = {"enabled": True, "allowOrigins": ["https://a.example"], "allowCredentials": True}
    handler = "def handler(context, event):\n    write(event.method)\n    return 'x'"
    async with http_function(tmp_path, handler, attributes={"cors": cors}) as f:
        allowed = await f.ask(method="OPTIONS", headers=ASKS)
        assert (allowed.status, allowed.headers["Access-Control-Allow-Credentials"]) == (200, "true")
        refused = await f.ask(method="OPTIONS", headers={**ASKS, "Origin": "https://b.example"})
        assert (refused.status, refused.headers["Vary"]) == (400, allowed.headers["Vary"])
        said = await f.ask(headers={"Origin": "https://a.example"})
        assert said.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert (await f.ask(headers={"Origin": "https://b.example"})).status == 403
        assert (await f.ask(method="OPTIONS")).status == 200  # nobody's preflight: the handler's
        assert f.lines() == ["GET", "OPTIONS"]
