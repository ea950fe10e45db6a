"""What a consumer group calls what it keeps in a stream."""

import re
import sys

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
