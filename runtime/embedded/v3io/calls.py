"""Calls of functions as they travel: the resource and fields of a request, and answers in JSON and XML."""

import json
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from headrace.runtime.embedded.v3io.errors import ApiError, invalid_argument
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address

# What completes the resource of a call whose path ends in a slash, in this order.
_RESOURCE = (("StreamName", "TableName"), ("ShardId", "Key"))


class FunctionCall:
    """A call of a function. Its fields are checked when they are taken; all methods raise ApiError."""

    def __init__(self, address: Address, body: bytes) -> None:
        self._fields = _parsed(body)
        self.address = address
        # Clients name the resource in the path, or in the body beside the path of what it lies in.
        if address.has_slash:
            self._complete()

    def text(self, name: str) -> str:
        """Return a field that is a string; empty where it is absent."""
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or _has_half_pairs(value):
            raise _wrong(name, value, "a string of whole characters")
        return value

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """Return a field that is a number from `least` to `most`, also as a string.

        It has to be there where there is no default.
        """
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        # Some clients send numbers as strings; 20 digits and more can't be in any bounds.
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        # A bool is an int to Python, but no number in JSON.
        if type(value) is not int or not least <= value <= most:
            raise _wrong(name, value, f"a whole number from {least} to {most}")
        return value

    def items(self, name: str, most: int) -> list[Any]:
        """Return a field that is a list, which has to be there."""
        value = self._fields.get(name)
        if not isinstance(value, list) or len(value) > most:
            shown = f"{len(value)} entries" if isinstance(value, list) else value
            raise _wrong(name, shown, f"a list of at most {most}")
        return value

    def fields(self, name: str) -> dict[str, Any]:
        """Return a field that is an object, which has to be there."""
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise _wrong(name, value, "an object")
        return value

    def _complete(self) -> None:
        for names in _RESOURCE:
            found = next((self._fields[name] for name in names if name in self._fields), None)
            if found is not None:
                self.address = self.address.below(_name_of(found))


def _parsed(body: bytes) -> dict[str, Any]:
    """Return the fields of a body; no body has none."""
    try:
        fields = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise invalid_argument(f"the body is no JSON: {str(error)[:200]}") from error
    if not isinstance(fields, dict):
        raise invalid_argument("the body is no JSON object")
    return fields


def _name_of(found: object) -> str:
    """Return the name of a stream, shard, table or item.

    An item's may be an attribute, as in {"name": {"S": "bob"}}.
    """
    # Twice: from the attribute's name to its type, and from that to the text.
    for _ in range(2):
        if isinstance(found, dict) and len(found) == 1:
            (found,) = found.values()
    name = str(found) if type(found) is int else found
    if not isinstance(name, str) or not name.isprintable() or "/" in name.strip("/") or not name.strip("/"):
        raise _wrong("the resource", found, "a name")
    return name.strip("/")


def _has_half_pairs(text: str) -> bool:
    """Whether the text has half of a surrogate pair, which JSON can spell and UTF-8 can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _wrong(name: str, value: object, expected: str) -> Exception:
    return invalid_argument(f"{name} is {str(value)[:80]!r}, expected {expected}")


_JSON = "application/json"
_encode = json.JSONEncoder(separators=(",", ":")).encode


def empty() -> web.Response:
    return web.Response(status=204)


def json_answer(content: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=_encode(content).encode(), content_type=_JSON)


def item_answer(content: Mapping[str, Any], mtime_ns: int) -> web.Response:
    """Return an answer about an item, with its mtime as a condition for the next write.

    Clients in Go insist on that header.
    """
    answer = json_answer(content)
    seconds, rest = divmod(mtime_ns, NANOSECONDS)
    verifier = f"__mtime_secs=={seconds} and __mtime_nsecs=={rest}"
    answer.headers["X-v3io-transaction-verifier"] = verifier
    answer.headers["Last-Modified"] = formatdate(seconds, usegmt=True)
    return answer


def function_error(error: ApiError) -> web.Response:
    return json_answer({"ErrorCode": error.code, "ErrorMessage": error.message}, error.status)


def object_error(error: ApiError) -> web.Response:
    """Return an error about what isn't a function's call: XML, as from other object stores."""
    text = f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message></Error>"
    return xml_answer(text, error.status)


def xml_answer(text: str, status: int = 200) -> web.Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    return web.Response(status=status, body=body, content_type="application/xml")
