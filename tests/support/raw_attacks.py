"""What nobody should send to an HTTP server, byte by byte, and what has to come of it."""

import base64
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KINDS = ("http", "admin", "v3io", "frontier")
HEALTHY = {"http": "/ok", "admin": "/live", "v3io": "/bigdata/", "frontier": "/health/live"}
_NOWHERE = {"http": "/no", "admin": "/no", "v3io": "/no/no", "frontier": "/no"}
_TAKES_BODIES = {
    "http": b"/ok",
    "admin": b"/api/partitions/orders/3/skip",
    "v3io": b"/bigdata/it",
    "frontier": b"/api/v1/rest/artifacts/presign",
}
_SOCKET = b"/api/v1/ws/runs/0123456789abcdef"
_KEY = base64.b64encode(bytes(16))
REFUSED, CLOSED, HELD = 4, 0, -1
"""Any 4xx; an end without a word; nothing at all before the server's time for silence is over."""
END = b"\r\n\r\n"


@dataclass(frozen=True)
class Attack:
    """What goes over one connection; `wanted` is a status, a WebSocket's code, or one of the above."""

    name: str
    pieces: Sequence[bytes]
    wanted: int = REFUSED
    is_socket: bool = False
    """After the handshake of a WebSocket, which is the first piece."""


def attacks(kind: str) -> Iterator[Attack]:
    """On the server of that kind."""
    path = _NOWHERE[kind].encode()
    for name, data in _malformed(path).items():
        yield Attack(name, [data], 400)
    for name, data in _too_long(path).items():
        yield Attack(name, [data], 431)
    for name, data in _refused(path).items():
        yield Attack(name, [data])
    yield from _bodies(kind)
    for name, data in _half_heads(path).items():
        yield Attack(name, [data], HELD)
    if kind == "frontier":
        yield from _frames()


def get(path: bytes, *lines: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([b"GET " + path + b" " + version, b"Host: localhost", *lines, b"", b""])


def post(kind: str, *lines: bytes) -> bytes:
    """The head of a request that its server reads the body of."""
    own = [b"X-v3io-function: PutItem"] if kind == "v3io" else []
    first = b"POST " + _TAKES_BODIES[kind] + b" HTTP/1.1"
    return b"\r\n".join([first, b"Host: localhost", *own, *lines, b"", b""])


def handshake(*lines: bytes, path: bytes = _SOCKET) -> bytes:
    return get(path, b"Connection: Upgrade", b"Upgrade: websocket", *lines)


OPEN_SOCKET = handshake(b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + _KEY)


def frame(payload: bytes, opcode: int = 1, *, flags: int = 0x80, length: int | None = None) -> bytes:
    """Masked by zeros."""
    said = len(payload) if length is None else length
    if said < 126:
        head = bytes([flags | opcode, 0x80 | said])
    elif said < 1 << 16:
        head = bytes([flags | opcode, 0x80 | 126]) + said.to_bytes(2)
    else:
        head = bytes([flags | opcode, 0x80 | 127]) + said.to_bytes(8)
    return head + bytes(4) + payload


def _malformed(path: bytes) -> dict[str, bytes]:
    begin = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n"
    of_post = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n"
    chunked = of_post + b"Transfer-Encoding: chunked" + END
    return {
        "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        "bytes": bytes(range(256)),
        "a line of SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
        "a line of SMTP": b"EHLO localhost\r\n",
        "HTTP 0.9": b"GET " + path + b"\r\n\r\n",
        "HTTP 9.9": get(path, version=b"HTTP/9.9"),
        "HTTP 2.0 in a line": get(path, version=b"HTTP/2.0"),
        "the preface of HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "no HTTP": get(path, version=b"HTTQ/1.1"),
        "no method": path + b" HTTP/1.1\r\nHost: x" + END,
        "a method in lower case": begin.replace(b"GET", b"get") + b"\r\n",
        "a method that nobody knows": begin.replace(b"GET", b"FROBNICATE") + b"\r\n",
        "a long method": begin.replace(b"GET", b"A" * 10_000) + b"\r\n",
        "no path": b"GET  HTTP/1.1\r\nHost: x" + END,
        "a star to get": get(b"*"),
        "a NUL in the path": get(path + b"\0"),
        "an address without a host": get(b"http:///x"),
        "a header without a colon": begin + b"broken" + END,
        "a space before the colon": begin + b"X : y" + END,
        "a header without a name": begin + b": y" + END,
        "a NUL in a header": begin + b"X: a\0b" + END,
        "a NUL in a header's name": begin + b"X\0: ab" + END,
        "a lone CR in a header": begin + b"X: a\rY: b" + END,
        "a folded header": begin + b"X: a\r\n b" + END,
        "a folded first header": b"GET " + path + b" HTTP/1.1\r\n Host: x" + END,
        "no host": b"GET " + path + b" HTTP/1.1" + END,
        "two hosts": begin + b"Host: other" + END,
        "two lengths": of_post + b"Content-Length: 1\r\nContent-Length: 2" + END + b"ab",
        "a length twice": of_post + b"Content-Length: 1\r\nContent-Length: 1" + END + b"a",
        "a list of lengths": of_post + b"Content-Length: 1, 1" + END + b"a",
        "a length below zero": of_post + b"Content-Length: -5" + END,
        "a length with a plus": of_post + b"Content-Length: +5" + END + b"abcde",
        "a length in hex": of_post + b"Content-Length: 0x5" + END + b"abcde",
        "a length beyond numbers": of_post + b"Content-Length: " + b"9" * 40 + END,
        "an empty length": of_post + b"Content-Length: " + END,
        "a length and chunks": of_post
        + b"Content-Length: 3\r\nTransfer-Encoding: chunked"
        + END
        + b"0"
        + END,
        "chunks and a length": of_post
        + b"Transfer-Encoding: chunked\r\nContent-Length: 3"
        + END
        + b"0"
        + END,
        "an encoding after chunks": of_post + b"Transfer-Encoding: chunked, gzip" + END + b"0" + END,
        "an encoding that nobody knows": of_post + b"Transfer-Encoding: xchunked" + END + b"0" + END,
        "a chunk of no number": chunked + b"zz\r\nab\r\n",
        "a chunk below zero": chunked + b"-1\r\nab\r\n",
        "a chunk beyond numbers": chunked + b"f" * 20 + b"\r\nab\r\n",
        "a chunk that is longer": chunked + b"1\r\nabc\r\n0" + END,
        "an old key of a WebSocket": get(path, b"Sec-WebSocket-Key1: x"),
        "fifty that are broken": (begin + b"broken" + END) * 50,
    }


def _too_long(path: bytes) -> dict[str, bytes]:
    begin = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n"
    return {
        "a long path": get(b"/" + b"a" * 100_000),
        "a longer path without an end": b"GET /" + b"a" * 300_000,
        "a long header": begin + b"X: " + b"a" * 100_000 + END,
        "a long name of a header": begin + b"X" * 100_000 + b": a" + END,
        "a header without an end": begin + b"X: " + b"a" * 1_000_000,
        "a thousand headers": begin + b"".join(b"X%d: y\r\n" % n for n in range(1000)) + b"\r\n",
        "headers that are long together": begin
        + b"".join(b"X%d: %200d\r\n" % (n, n) for n in range(100))
        + END,
        "headers without an end": begin + b"X: y\r\n" * 100_000,
    }


def _refused(path: bytes) -> dict[str, bytes]:
    return {
        "a tunnel": b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22" + END,
        "a tunnel, and what goes through it": b"CONNECT a:1 HTTP/1.1\r\nHost: a"
        + END
        + b"SSH-2.0-x\r\n" * 100,
        "a trace": b"TRACE " + path + b" HTTP/1.1\r\nHost: localhost" + END,
        "percents that are none": get(path + b"/%zz%"),
        "dots": get(b"/../../../../etc/passwd"),
        "encoded dots": get(b"/%2e%2e/%2e%2e/etc/passwd"),
        "encoded slashes": get(b"/..%2f..%2fetc%2fpasswd"),
        "a path twice encoded": get(b"/%252e%252e%252fetc"),
        "backslashes": get(b"/..\\..\\etc"),
        "two slashes": get(b"//etc/passwd"),
        "an encoded NUL": get(path + b"/%00"),
        "no UTF-8": get(path + b"/\xff\xfe"),
        "an encoded end of line": get(path + b"/%0d%0aX:%20y"),
        "another server's address": get(b"http://localhost" + path),
        "a change to HTTP 2": get(path, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"),
        "a WebSocket where none is": handshake(b"Sec-WebSocket-Key: " + _KEY, path=path) + frame(b"x") * 10,
        "a thousand behind each other": get(path) * 1000,
    }


def _bodies(kind: str) -> Iterator[Attack]:
    announced = post(kind, b"Content-Length: 99999999999")
    too_long = REFUSED if kind == "admin" else 413  # which reads none
    slow = REFUSED if kind == "admin" else 408
    yield Attack("a body that is announced too long", [announced], too_long)
    yield Attack("a body that is announced too long, and comes", [announced, bytes(3_000_000)], too_long)
    chunked = post(kind, b"Transfer-Encoding: chunked")
    endless = [chunked] + [b"10000\r\n" + bytes(0x10000) + b"\r\n"] * 200
    yield Attack("chunks without an end", endless, too_long)
    yield Attack("an endless word of a chunk", [chunked, b"5;" + b"a" * 200_000])
    yield Attack("a chunk that is broken later", [chunked, b"5\r\nabcde\r\n", b"zz\r\n"])
    yield Attack("trailers without an end", [chunked, b"0\r\n" + b"X: y\r\n" * 50_000])
    yield Attack("a body that falls silent", [post(kind, b"Content-Length: 1000"), b"abc"], slow)
    yield Attack("chunks that fall silent", [chunked, b"5\r\nabcde\r\n"], slow)
    zeros = bytes(100_000_000)
    for name, data in {"gzip": gzip.compress(zeros, 6), "deflate": zlib.compress(zeros, 6)}.items():
        length = b"Content-Length: %d" % len(data)
        yield Attack(f"a bomb of {name}", [post(kind, b"Content-Encoding: " + name.encode(), length) + data])


def _half_heads(path: bytes) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "a half line": b"GET " + path,
        "a half head": get(path)[:-2],
        "empty lines": b"\r\n" * 1000,
    }


def _frames() -> Iterator[Attack]:
    key, version = b"Sec-WebSocket-Key: " + _KEY, b"Sec-WebSocket-Version: 13"
    for name, lines in {
        "no key": [version],
        "a key that is none": [version, b"Sec-WebSocket-Key: ?"],
        "a short key": [version, b"Sec-WebSocket-Key: YWJj"],
        "no version": [key],
        "another version": [key, b"Sec-WebSocket-Version: 99"],
    }.items():
        yield Attack(f"a WebSocket with {name}", [handshake(*lines)])
    yield Attack("a WebSocket of no run", [handshake(key, version, path=b"/api/v1/ws/runs/%2e%2e")])
    wrong = {
        "a frame that is too long": (1009, frame(b"", length=17 << 20)),
        "a frame of 2^63 bytes": (1009, frame(b"", length=1 << 63)),
        "fragments without an end": (1009, (frame(bytes(1 << 20), 2, flags=0) + b"")),
        "a frame without a mask": (1002, b"\x81\x02{}"),
        "reserved bits": (1002, frame(b"{}", flags=0xB0)),
        "a compressed frame": (1002, frame(zlib.compress(bytes(1_000_000)), flags=0xC0)),
        "an opcode that nobody knows": (1002, frame(b"{}", 3)),
        "a ping in fragments": (1002, frame(b"", 9, flags=0)),
        "a long ping": (1002, frame(bytes(126), 9)),
        "the end of no message": (1002, frame(b"{}", 0)),
        "a message amid another": (1002, frame(b"{", flags=0) + frame(b"}")),
        "text that is no UTF-8": (1007, frame(b"\xff\xfe")),
        "an end with a code that is none": (1002, frame((999).to_bytes(2), 8)),
        "an end of one byte": (1002, frame(b"x", 8)),
    }
    for name, (code, data) in wrong.items():
        rest = [frame(bytes(1 << 20), 0, flags=0)] * 17 if name.startswith("fragments") else []
        yield Attack(name, [OPEN_SOCKET, data, *rest], code, is_socket=True)
