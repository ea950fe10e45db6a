"""The format of what a consumer group keeps in a stream: names, and the state as text. Pure.

Names and state are v3io-go's, so that members of both makes can share a group.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_ATTRIBUTE = re.compile(r"[A-Za-z0-9_]+")
_OTHERS = re.compile(r"[^A-Za-z0-9_]")
_ESCAPED = re.compile(r"_x([0-9a-f]{1,6})_")
MAX_GROUP_CHARS = 200
"""An attribute's name has 255 at most, of which a prefix and a suffix take a part."""


def escaped(group: str) -> str:
    """Return the group's name as a part of an attribute's, which has letters, digits and underscores alone.

    Unchanged where that can be: then members of other makes know it by that name too. Else `my-group` is
    `my_x2d_group`.
    """
    if _ATTRIBUTE.fullmatch(group):
        return group
    return _OTHERS.sub(lambda found: f"_x{ord(found[0]):x}_", group)


def another_of_that_name(group: str) -> str:
    """Return the other group whose attributes would have the same names; empty where there is none."""
    attribute = escaped(group)
    read = _ESCAPED.sub(_unescaped, attribute)
    return "" if read == group else read


def _unescaped(found: re.Match[str]) -> str:
    """Return the character that an escape stands for; the escape itself where it isn't one of `escaped`."""
    number = int(found[1], 16)
    character = chr(number) if number <= sys.maxunicode else ""
    # Only what `escaped` writes is an escape: a group may be called so_x2d_ itself.
    is_one = character.isprintable() and _OTHERS.fullmatch(character) and f"{number:x}" == found[1]
    return character if is_one else found[0]


def state_name(group: str) -> str:
    """Return the name of the item, beside the shards, that says which member has which."""
    return f"{group}-state.json"


def sequence_attribute(group: str) -> str:
    """Return the shard's attribute with the sequence number of the last record that is done, 0 for none."""
    return f"__{escaped(group)}_committed_sequence_number"


def text_attribute(group: str) -> str:
    """Return the shard's attribute, Headrace's own, with attempts, plan, and acks above the commit."""
    return f"__{escaped(group)}_committed_metadata"


LAST_SEQUENCE = "__last_sequence_num"
"""The shard's attribute with the sequence number of the record that came last."""
INODE = "__inode_number"
"""The shard's attribute that tells it from others that had its name before."""
# What v3io-go writes. It is not compared when a state is read.
SCHEMA_VERSION = "0.0.1"
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_SHARE = "headrace_share"


class StateError(Exception):
    """An item whose text is no state of a group; the error says why."""


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the shards that a member goes for: the `index`-th of `count` equal ones."""

    index: int
    count: int


@dataclass(frozen=True, slots=True)
class SessionState:
    """A member's session. `heartbeat_ns` is when it was last renewed, in ns since 1970 by its own clock.

    `share` is the one that it goes for; None with members of other makes, which don't write it.
    """

    member_id: str
    heartbeat_ns: int
    shards: tuple[int, ...]
    share: Share | None = None


def decode_state(text: str) -> tuple[SessionState, ...]:
    """Return the sessions of the item's text. Raises StateError."""
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise StateError(f"it is no JSON: {error}") from None
    # Go writes null for an empty list.
    sessions = fields.get("session_states") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(sessions or [], list):
        raise StateError("it has no list of session_states")
    return tuple(_session(entry) for entry in sessions or ())


def encode_state(sessions: Iterable[SessionState]) -> str:
    """Return the sessions as text: compact, since members read it at each heartbeat."""
    fields = {"schema_version": SCHEMA_VERSION, "session_states": [_encoded_session(it) for it in sessions]}
    return json.dumps(fields, separators=(",", ":"))


def _session(entry: object) -> SessionState:
    fields = entry if isinstance(entry, dict) else {}
    match fields:
        case {"member_id": str(member_id), "last_heartbeat_time": str(heartbeat)}:
            return SessionState(member_id, _nanoseconds(heartbeat), _shards(fields), _share(fields))
    raise StateError("a session has no member_id or last_heartbeat_time")


def _shards(entry: Mapping[str, Any]) -> tuple[int, ...]:
    shards = entry.get("shards") or []
    # By type(): to isinstance, JSON's true is a number, too.
    if not isinstance(shards, list) or not all(type(shard) is int for shard in shards):
        raise StateError("a session's shards are no list of numbers")
    # In order: shares are compared with cut(), whose tuples are in order.
    return tuple(sorted(set(shards)))


def _share(entry: Mapping[str, Any]) -> Share | None:
    # A share that can't be read is none: such a member is judged by its shards, as those of other makes are.
    match entry.get(_SHARE):
        case [int(index), int(count)]:
            return Share(index, count)
    return None


def _encoded_session(session: SessionState) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "member_id": session.member_id,
        "last_heartbeat_time": _time(session.heartbeat_ns),
        "shards": list(session.shards),
    }
    # Sessions of other makes have no share, and are written back without the key.
    share: Sequence[int] = (session.share.index, session.share.count) if session.share else ()
    return fields | ({_SHARE: list(share)} if share else {})


def _nanoseconds(text: str) -> int:
    """Return the nanoseconds since 1970 of a time in RFC 3339 as Go writes it.

    Up to 9 digits follow the second, and the offset may be any. Raises StateError.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise StateError(f"{text!r} is no time")
    # The fraction is added by hand: datetime holds microseconds, and the text has up to nanoseconds.
    moment, fraction, zone = found.groups()
    try:
        seconds = datetime.fromisoformat(moment + ("+00:00" if zone == "Z" else zone)).timestamp()
    except ValueError as error:
        raise StateError(f"{text!r} is no time: {error}") from None
    return int(seconds) * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
