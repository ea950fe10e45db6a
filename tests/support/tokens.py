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
from urllib.parse import parse_qs


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


@contextmanager
def token_server() -> Iterator[TokenServer]:
    """One that listens on loopback."""
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
