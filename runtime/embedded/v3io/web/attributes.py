"""An item's attributes: those that clients set, and those that the system has."""

from collections.abc import Callable
from typing import Any

from headrace.runtime.embedded.v3io.errors import invalid_argument
from headrace.runtime.embedded.v3io.language.steps import Steps
from headrace.runtime.embedded.v3io.language.values import Typed, Value, decoded
from headrace.runtime.embedded.v3io.store.node import NANOSECONDS, Node, NodeKind

Attributes = dict[str, dict[str, Any]]

_USER, _EVERYTHING = "*", "**"
_MOST_NAMES = 1000

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
    "__uid": lambda _: 0,
    "__gid": lambda _: 0,
    "__collection_id": lambda _: 0,
}
_OF_SHARDS: dict[str, Callable[[Node], int | str]] = {"__last_sequence_num": lambda node: node.last_sequence}
RESERVED = _SYSTEM.keys() | _OF_SHARDS.keys()
"""What no client may set."""


class ItemView:
    """What conditions see of an item; of an absent one, nothing. `steps` are those that they take of it."""

    def __init__(self, node: Node | None) -> None:
        self._node = node
        self.steps = Steps()
        self.own: Attributes = {} if node is None else node.own_attributes

    def value(self, name: str) -> Value | None:
        """Of any attribute; None where it is absent."""
        if name in self.own:
            return decoded(self.own[name])
        return self._system(name)

    def chosen(self, names: list[str], *, with_name: bool = False) -> dict[str, Typed]:
        """Those of them that there are, typed; `with_name`: `*` has `__name` too, as it has in scans."""
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
    """Of AttributesToGet: separated by commas; nothing is `*`. V3ioError for too many."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) > _MOST_NAMES:
        raise invalid_argument(f"AttributesToGet has {len(names)} names, at most {_MOST_NAMES}")
    return names or [_USER]
