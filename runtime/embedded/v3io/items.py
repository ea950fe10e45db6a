"""Items: their attributes, read, put and updated, each write under a condition if it has one."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import FunctionCall, item_answer
from headrace.runtime.embedded.v3io.errors import (
    ApiError,
    condition_failed,
    invalid_argument,
    not_permitted,
)
from headrace.runtime.embedded.v3io.language.evaluation import Steps, holds, updated
from headrace.runtime.embedded.v3io.language.values import (
    MalformedError,
    Typed,
    Value,
    check_name,
    decoded,
    encoded,
)
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address, Node, NodeKind
from headrace.runtime.embedded.v3io.store import Store

Attributes = dict[str, dict[str, Any]]
_USER, _EVERYTHING = "*", "**"
_MAX_NAMES = 1000
_SYSTEM: dict[str, Callable[[Node], int | str]] = {
    "__name": lambda node: node.name,
    "__size": lambda node: node.size,
    "__mode": lambda node: node.mode,
    "__obj_type": lambda node: int(node.kind),
    "__mtime_secs": lambda node: node.mtime_ns // NANOSECONDS,
    "__mtime_nsecs": lambda node: node.mtime_ns % NANOSECONDS,
    "__ctime_secs": lambda node: node.ctime_ns // NANOSECONDS,
    "__ctime_nsecs": lambda node: node.ctime_ns % NANOSECONDS,
    "__atime_secs": lambda node: node.mtime_ns // NANOSECONDS,
    "__atime_nsecs": lambda node: node.mtime_ns % NANOSECONDS,
    "__inode_number": lambda node: node.inode,
    # Always 0 here: there is one user, and no collection.
    "__uid": lambda _: 0,
    "__gid": lambda _: 0,
    "__collection_id": lambda _: 0,
}
_OF_SHARDS: dict[str, Callable[[Node], int | str]] = {"__last_sequence_num": lambda node: node.last_sequence}
RESERVED = _SYSTEM.keys() | _OF_SHARDS.keys()
"""The attributes that no client may set."""


class ItemView:
    """The attributes of an item, as conditions see them; an absent one has none.

    `steps` counts what conditions and expressions take of it.
    """

    def __init__(self, node: Node | None) -> None:
        self._node = node
        self.steps = Steps()
        self.own: Attributes = {} if node is None else node.own_attributes

    def value(self, name: str) -> Value | None:
        """Return the value of any attribute; None where it is absent."""
        # Clients can't set the system's names, so the order of the two decides nothing.
        if name in self.own:
            return decoded(self.own[name])
        return self._system(name)

    def chosen(self, names: list[str], *, with_name: bool = False) -> dict[str, Typed]:
        """Return attributes by their names, typed; `with_name`: `*` has `__name` too, as it has in scans."""
        found: dict[str, Typed] = {}
        for name in names:
            if name in {_USER, _EVERYTHING}:
                found |= self.own
                system = RESERVED if name == _EVERYTHING else {"__name"} if with_name else set()
                found |= {each: typed for each in sorted(system) if (typed := self._typed(each))}
            elif typed := self._typed(name):
                found[name] = typed
        return found

    def _typed(self, name: str) -> Typed | None:
        if name in self.own:
            return self.own[name]
        value = self._system(name)
        if value is None:
            return None
        return {"S": value} if isinstance(value, str) else {"N": str(value)}

    def _system(self, name: str) -> int | str | None:
        if self._node is None:
            return None
        if name in _SYSTEM:
            return _SYSTEM[name](self._node)
        if name in _OF_SHARDS and self._node.kind == NodeKind.SHARD:
            return _OF_SHARDS[name](self._node)
        return None


def names_in(text: str) -> list[str]:
    """Return the names in AttributesToGet, separated by commas; none is `*`. ApiError for too many."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) > _MAX_NAMES:
        raise invalid_argument(f"AttributesToGet has {len(names)} names, at most {_MAX_NAMES}")
    return names or [_USER]


_MERGE = "CreateOrReplaceAttributes"
_MAX_CHARACTERS = 10 << 20


class Items:
    """The functions of items.

    A condition and its write are one step: one thread, and no await between them.
    """

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
        # With a condition that is false, the alternate expression is applied, if there is one.
        name = "UpdateExpression" if _holds(call, view) else "AlternateUpdateExpression"
        expression = call.text(name)
        if not expression:
            raise condition_failed() if call.text("UpdateExpression") else _no_expression()
        try:
            changed = updated(expression, view.value, view.steps)
        except MalformedError as error:
            raise invalid_argument(f"{name}: {error}") from error
        _check_owner(changed)
        # Before values are encoded: that copies each of them.
        _check_size(sum(len(it) for it in changed.values() if isinstance(it, str | bytes)))
        new = _checked({key: encoded(value) for key, value in changed.items() if value is not None})
        kept = {key: typed for key, typed in view.own.items() if key not in changed}
        return self._write(call.address, node, kept | new)

    def _write(self, address: Address, node: Node | None, attributes: Attributes) -> web.Response:
        text = json.dumps(attributes, separators=(",", ":"))
        _check_size(len(text))
        # One statement is a transaction by itself; making a node takes several.
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
    """Return the attributes, if they may be kept. ApiError."""
    _check_owner(sent)
    for name, typed in sent.items():
        try:
            check_name(name)
            # Only for its errors: what is kept is what was sent.
            decoded(typed)
        except MalformedError as error:
            raise invalid_argument(f"attribute {name[:80]!r}: {error}") from error
    return sent


def _check_owner(names: Iterable[str]) -> None:
    for name in names:
        if name in RESERVED:
            raise not_permitted(f"{name} is the system's")


def _check_size(characters: int) -> None:
    """Check the size of an item: writes that merge, and updates, could add to it without end."""
    if characters > _MAX_CHARACTERS:
        raise invalid_argument(f"an item has at most {_MAX_CHARACTERS} characters of attributes")


def _no_expression() -> ApiError:
    return invalid_argument("UpdateExpression is missing: send what is to be set, as in SET age = age + 1")
