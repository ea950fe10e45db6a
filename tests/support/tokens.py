"""A token server for OAUTHBEARER."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote_plus

SECRET = "s3cret word+"


@dataclass
class TokenServer:
    """Gives unsigned tokens to whoever knows the secret; `asked` holds each request's header and fields.

    Its tokens hold `token_id`. It knows another secret where `secret` is changed.
    """

    url: str = ""
    secret: str = SECRET
    token_id: str = ""
    takes_header: bool = True
    lifetime_seconds: float = 3600
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = self.secret

    def answer(self, authorization: str, fields: dict[str, list[str]]) -> dict[str, Any] | None:
        self.asked.append((authorization, fields))
        if self.takes_header and authorization:
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            known = pair == f"ada:{quote_plus(self._known)}"
        else:
            known = fields.get("client_secret") == [self.secret]
        if not known or self.secret != self._known:
            return None
        now = time.time()
        claims = {"sub": "ada", "iat": now, "exp": now + 3600, "jti": self.token_id}
        token = ".".join((_coded({"alg": "none"}), _coded(claims), ""))
        return {"access_token": token, "token_type": "bearer", "expires_in": self.lifetime_seconds}


def _coded(claims: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


@contextmanager
def token_server(secret: str = SECRET, token_id: str = "") -> Iterator[TokenServer]:
    """One that listens on loopback."""
    server = TokenServer(secret=secret, token_id=token_id)

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
