"""Items: read, put and updated, each under a condition if it has one."""

import json
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from headrace.runtime.embedded.v3io.errors import (
    ApiError,
    condition_failed,
    invalid_argument,
    not_permitted,
)
from headrace.runtime.embedded.v3io.language.conditions import holds
from headrace.runtime.embedded.v3io.language.errors import MalformedError
from headrace.runtime.embedded.v3io.language.expressions import updated
from headrace.runtime.embedded.v3io.language.values import check_name, decoded, encoded
from headrace.runtime.embedded.v3io.store.address import Address
from headrace.runtime.embedded.v3io.store.node import Node, NodeKind
from headrace.runtime.embedded.v3io.store.store import Store
from headrace.runtime.embedded.v3io.web.answers import item_answer
from headrace.runtime.embedded.v3io.web.attributes import RESERVED, Attributes, ItemView, names_in
from headrace.runtime.embedded.v3io.web.call import FunctionCall

_MERGE = "CreateOrReplaceAttributes"
_MOST_CHARACTERS = 10 << 20


class Items:
    """Between the look at a condition and the write nothing else runs: one thread, and no await."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, call: FunctionCall) -> web.Response:
        node = self._store.nodes.existing(call.address)
        chosen = ItemView(node).chosen(names_in(call.text("AttributesToGet")))
        return item_answer({"Item": chosen}, node.mtime_ns)

    async def put(self, call: FunctionCall) -> web.Response:
        sent = _checked(call.fields("Item"))
        is_merge = _is_merge(call, default=False)
        node = self._store.nodes.find(call.address)
        view = ItemView(node)
        if not _holds(call, view):
            raise condition_failed()
        return self._write(call.address, node, view.own | sent if is_merge else sent)

    async def update(self, call: FunctionCall) -> web.Response:
        _is_merge(call, default=True)
        node = self._store.nodes.find(call.address)
        view = ItemView(node)
        name = "UpdateExpression" if _holds(call, view) else "AlternateUpdateExpression"
        expression = call.text(name)
        if not expression:
            raise condition_failed() if call.text("UpdateExpression") else _no_expression()
        try:
            changed = updated(expression, view.value, view.steps)
        except MalformedError as error:
            raise invalid_argument(f"{name}: {error}") from error
        _check_owner(changed)
        _check_size(sum(len(it) for it in changed.values() if isinstance(it, str | bytes)))
        new = _checked({key: encoded(value) for key, value in changed.items() if value is not None})
        kept = {key: typed for key, typed in view.own.items() if key not in changed}
        return self._write(call.address, node, kept | new)

    def _write(self, address: Address, node: Node | None, attributes: Attributes) -> web.Response:
        text = json.dumps(attributes, separators=(",", ":"))
        _check_size(len(text))
        if node is not None:
            written = self._store.nodes.touch(node, attributes=text)
        else:
            with self._store.database.transaction():
                made = self._store.nodes.make(address, NodeKind.FILE)
                written = self._store.nodes.touch(made, attributes=text)
        return item_answer({}, written.mtime_ns)


def _is_merge(call: FunctionCall, *, default: bool) -> bool:
    mode = call.text("UpdateMode")
    if mode not in {"", _MERGE}:
        raise invalid_argument(f"UpdateMode is {mode[:40]!r}, expected {_MERGE} or none")
    return default or mode == _MERGE


def _holds(call: FunctionCall, view: ItemView) -> bool:
    condition = call.text("ConditionExpression")
    try:
        return not condition or holds(condition, view.value, view.steps)
    except MalformedError as error:
        raise invalid_argument(f"ConditionExpression: {error}") from error


def _checked(sent: dict[str, Any]) -> Attributes:
    """Attributes that may be kept. ApiError."""
    _check_owner(sent)
    for name, typed in sent.items():
        try:
            check_name(name)
            decoded(typed)
        except MalformedError as error:
            raise invalid_argument(f"attribute {name[:80]!r}: {error}") from error
    return sent


def _check_owner(names: Iterable[str]) -> None:
    for name in names:
        if name in RESERVED:
            raise not_permitted(f"{name} is the system's")


def _check_size(characters: int) -> None:
    """Writes that merge, and updates, could add to an item without end."""
    if characters > _MOST_CHARACTERS:
        raise invalid_argument(f"an item has at most {_MOST_CHARACTERS} characters of attributes")


def _no_expression() -> ApiError:
    return invalid_argument("UpdateExpression is missing: send what is to be set, as in SET age = age + 1")
