"""A call of a function: its resource, and the fields of its body."""

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
    """Its fields are checked when they are taken. Everything raises V3ioError."""

    def __init__(self, address: Address, body: bytes) -> None:
        self._fields = _parsed(body)
        self.address = address
        if address.has_slash:
            self._complete()

    def text(self, name: str) -> str:
        """Empty where it is absent."""
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or _has_half_pairs(value):
            raise _wrong(name, value, "a string of whole characters")
        return value

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A number from `least` to `most`, also as a string. Without a default it has to be there."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise _wrong(name, value, f"a whole number from {least} to {most}")
        return value

    def items(self, name: str, most: int) -> list[Any]:
        """A list, which has to be there."""
        value = self._fields.get(name)
        if not isinstance(value, list) or len(value) > most:
            shown = f"{len(value)} entries" if isinstance(value, list) else value
            raise _wrong(name, shown, f"a list of at most {most}")
        return value

    def fields(self, name: str) -> dict[str, Any]:
        """An object, which has to be there."""
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
    """No body is no fields."""
    try:
        fields = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise invalid_argument(f"the body is no JSON: {str(error)[:200]}") from error
    if not isinstance(fields, dict):
        raise invalid_argument("the body is no JSON object")
    return fields


def _name_of(found: object) -> str:
    """Of a stream, shard, table or item; an item's may be an attribute, as in {"name": {"S": "bob"}}."""
    for _ in range(2):
        if isinstance(found, dict) and len(found) == 1:
            (found,) = found.values()
    name = str(found) if type(found) is int else found
    if not isinstance(name, str) or not name.isprintable() or "/" in name.strip("/") or not name.strip("/"):
        raise _wrong("the resource", found, "a name")
    return name.strip("/")


def _has_half_pairs(text: str) -> bool:
    """JSON can spell half of a surrogate pair, which no UTF-8 has."""
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
