"""What a consumer group calls what it keeps in a stream."""

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


"""An attribute's name has 255 at most, and others have a part in it."""


def escaped(group: str) -> str:
    """The group in the name of an attribute, which has letters, digits and underscores alone.

    Itself where that can be: then others know it by that name too. Else `my-group` is `my_x2d_group`.
    """
    if _ATTRIBUTE.fullmatch(group):
        return group
    return _OTHERS.sub(lambda found: f"_x{ord(found[0]):x}_", group)


def another_of_that_name(group: str) -> str:
    """The group whose attributes these would be, too; empty where they are this one's alone."""
    attribute = escaped(group)
    read = _ESCAPED.sub(_unescaped, attribute)
    return "" if read == group else read


def _unescaped(found: re.Match[str]) -> str:
    """Itself where it stands for nothing that a group may have and an attribute may not."""
    number = int(found[1], 16)
    character = chr(number) if number <= sys.maxunicode else ""
    is_one = character.isprintable() and _OTHERS.fullmatch(character) and f"{number:x}" == found[1]
    return character if is_one else found[0]


def state_name(group: str) -> str:
    """Of the item beside the shards that says who has which."""
    return f"{group}-state.json"


def sequence_attribute(group: str) -> str:
    """Of a shard: the sequence number of the last record that is done; 0 or none: none is."""
    return f"__{escaped(group)}_committed_sequence_number"


def text_attribute(group: str) -> str:
    """Ours, beside it: attempts, plan and what is acked above it."""
    return f"__{escaped(group)}_committed_metadata"


LAST_SEQUENCE = "__last_sequence_num"


"""Of a shard: the sequence number of the record that came last."""


INODE = "__inode_number"


"""Of a shard: which one it is, where others had its name before."""


SCHEMA_VERSION = "0.0.1"


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


_SHARE = "headrace_share"


class StateError(Exception):
    """What the item holds is no state. The text says why."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of the shards a member goes for: the `index`-th of `count` equal ones."""

    index: int
    count: int


@dataclass(frozen=True, slots=True)
class SessionState:
    """A member. `heartbeat_ns` is when it was last renewed, in ns since 1970 by its own clock.

    `share`: what one of ours goes for; None with members of other makes, who don't say it.
    """

    member_id: str
    heartbeat_ns: int
    shards: tuple[int, ...]
    share: Share | None = None


def decode_state(text: str) -> tuple[SessionState, ...]:
    """Raises StateError."""
    try:
        said = json.loads(text)
    except ValueError as error:
        raise StateError(f"it is no JSON: {error}") from None
    sessions = said.get("session_states") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(sessions or [], list):
        raise StateError("it has no list of session_states")
    return tuple(_session(entry) for entry in sessions or ())


def encode_state(sessions: Iterable[SessionState]) -> str:
    """With as little as members have to read at each heartbeat."""
    said = {"schema_version": SCHEMA_VERSION, "session_states": [_encoded(it) for it in sessions]}
    return json.dumps(said, separators=(",", ":"))


def _session(entry: object) -> SessionState:
    said = entry if isinstance(entry, dict) else {}
    match said:
        case {"member_id": str(member_id), "last_heartbeat_time": str(heartbeat)}:
            return SessionState(member_id, _nanoseconds(heartbeat), _shards(said), _share(said))
    raise StateError("a session has no member_id or last_heartbeat_time")


def _shards(entry: Mapping[str, Any]) -> tuple[int, ...]:
    shards = entry.get("shards") or []
    if not isinstance(shards, list) or not all(type(shard) is int for shard in shards):
        raise StateError("a session's shards are no list of numbers")
    return tuple(sorted(set(shards)))


def _share(entry: Mapping[str, Any]) -> Share | None:
    match entry.get(_SHARE):
        case [int(index), int(count)]:
            return Share(index, count)
    return None


def _encoded(session: SessionState) -> dict[str, Any]:
    said: dict[str, Any] = {
        "member_id": session.member_id,
        "last_heartbeat_time": _time(session.heartbeat_ns),
        "shards": list(session.shards),
    }
    share: Sequence[int] = (session.share.index, session.share.count) if session.share else ()
    return said | ({_SHARE: list(share)} if share else {})


def _nanoseconds(text: str) -> int:
    """RFC 3339, as Go writes it: up to 9 digits after the second, and any offset."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise StateError(f"{text!r} is no time")
    moment, fraction, zone = found.groups()
    try:
        seconds = datetime.fromisoformat(moment + ("+00:00" if zone == "Z" else zone)).timestamp()
    except ValueError as error:
        raise StateError(f"{text!r} is no time: {error}") from None
    return int(seconds) * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
