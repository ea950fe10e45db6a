"""Names as Kubernetes, and so Nuclio, takes them; Kafka takes them too, for topics and groups."""

import re

_LONGEST = 63
_NAME = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{_LONGEST - 2}}}[a-z0-9])?")
NAME_RULE = f"expected small letters, digits and dashes, at most {_LONGEST}"


def is_name(text: str) -> bool:
    """Whether it is one."""
    return _NAME.fullmatch(text) is not None


def nearest_name(text: str) -> str:
    """The one that is most like this text; empty where nothing of it may stand in one."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")
