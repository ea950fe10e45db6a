"""What a page of another site can send to a server, to each of its routes."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import aiohttp
from aiohttp import web

EVIL = "http://evil.example"
_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}
_POST = {"Content-Type": "text/plain"}
ATTACKS = {
    "another origin": {"Origin": EVIL, **_POST},
    "another origin, as newer browsers say": {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", **_POST},
    "a WebSocket": {"Origin": EVIL, **_UPGRADE},
    "an image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "another server of this machine": {"Sec-Fetch-Site": "same-site"},
    "a sandbox": {"Origin": "null", **_POST},
    "a domain that points here": {"Host": "evil.example", "Origin": EVIL, "Sec-Fetch-Site": "same-origin"},
}


class Route(NamedTuple):
    """`headers` are what the route needs to be found."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()


def routes_of(app: web.Application, **parts: str) -> list[Route]:
    """All of them. `parts` are for what stands in brackets in their paths; a new one has to be given."""
    found = []
    for route in app.router.routes():
        assert route.resource is not None
        info = route.resource.get_info()
        path = info["path"] if "path" in info else info["formatter"].format_map(parts)
        methods = ("GET", "POST", "PUT", "DELETE") if route.method == "*" else (route.method,)
        found += [Route(method, path) for method in methods]
    return found


async def let_in(url: str, routes: Iterable[Route], body: bytes = b"{}") -> list[str]:
    """What isn't refused with 403 before anything else, in a line each."""
    connector = aiohttp.TCPConnector(limit=16)  # the admin server ends those beyond 64
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(100)) as session:

        async def ask(route: Route, name: str) -> str:
            headers = {**dict(route.headers), **ATTACKS[name]}
            data = None if route.method in {"GET", "HEAD"} else body
            async with session.request(
                route.method, url + route.path, data=data, headers=headers, allow_redirects=False
            ) as answer:
                said = await answer.read()
            is_refused = answer.status == 403 and not any(
                name.startswith("Access-Control") for name in answer.headers
            )
            return "" if is_refused else f"{name}: {route} got {answer.status} {said[:100]!r}"

        pairs = [(route, name) for route in routes for name in ATTACKS]
        asked = [ask(route, name) for route, name in pairs if route.method == "GET" or name != "a WebSocket"]
        assert asked
        return list(filter(None, await asyncio.gather(*asked)))
