"""What a consumer group calls what it keeps in a stream."""

import re

_ATTRIBUTE = re.compile(r"[A-Za-z0-9_]+")
_OTHERS = re.compile(r"[^A-Za-z0-9_]")
MAX_GROUP_CHARS = 200
"""An attribute's name has 255 at most, and others have a part in it."""


def escaped(group: str) -> str:
    """The group in the name of an attribute, which has letters, digits and underscores alone.

    Itself where that can be: then others know it by that name too. Else `my-group` is `my_x2d_group`.
    """
    if _ATTRIBUTE.fullmatch(group):
        return group
    return _OTHERS.sub(lambda found: f"_x{ord(found[0]):x}_", group)


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
