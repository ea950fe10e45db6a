"""Answers as they travel."""

import json
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from headrace.runtime.embedded.v3io.errors import ApiError
from headrace.runtime.embedded.v3io.store.node import NANOSECONDS

_JSON = "application/json"
_encode = json.JSONEncoder(separators=(",", ":")).encode


def empty() -> web.Response:
    return web.Response(status=204)


def json_answer(content: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=_encode(content).encode(), content_type=_JSON)


def item_answer(content: Mapping[str, Any], mtime_ns: int) -> web.Response:
    """About an item: with its time as a condition for the next write, which clients in Go insist on."""
    answer = json_answer(content)
    seconds, rest = divmod(mtime_ns, NANOSECONDS)
    verifier = f"__mtime_secs=={seconds} and __mtime_nsecs=={rest}"
    answer.headers["X-v3io-transaction-verifier"] = verifier
    answer.headers["Last-Modified"] = formatdate(seconds, usegmt=True)
    return answer


def function_error(error: ApiError) -> web.Response:
    return json_answer({"ErrorCode": error.code, "ErrorMessage": error.message}, error.status)


def object_error(error: ApiError) -> web.Response:
    """Of what isn't a function's call."""
    text = f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message></Error>"
    return xml_answer(text, error.status)


def xml_answer(text: str, status: int = 200) -> web.Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    return web.Response(status=status, body=body, content_type="application/xml")
