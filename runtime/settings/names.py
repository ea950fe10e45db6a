"""Names: which are valid for functions and outputs, and which known one a mistyped one was meant to be."""

import re
from collections.abc import Iterable

# Names as Kubernetes, and so Nuclio, takes them; Kafka takes them too, for topics and groups.
_LONGEST = 63
_NAME = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{_LONGEST - 2}}}[a-z0-9])?")
_MOST_SUGGESTIONS = 100
NAME_RULE = f"expected small letters, digits and dashes, at most {_LONGEST}"


def is_name(text: str) -> bool:
    """Whether `text` is such a name."""
    return _NAME.fullmatch(text) is not None


def nearest_name(text: str) -> str:
    """Return the name that is most like `text`; empty where nothing of it may stand in a name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")


def nearest(key: str, known: Iterable[str]) -> str:
    """Return the known key that looks most like `key`, upper and lower case alike."""
    import difflib  # only a mistyped name needs it

    spellings = {name.lower(): name for name in known}
    found = difflib.get_close_matches(key.lower(), spellings, n=1, cutoff=0.0)
    return spellings[found[0]] if found else ""


class Suggestions:
    """Suggestions of the known key that an unknown one was meant to be, for the first unknown ones of a file.

    Each takes a millisecond to find, so a file with thousands of unknown keys gets only so many.
    """

    def __init__(self) -> None:
        self._left = _MOST_SUGGESTIONS

    def unknown(self, key: str, known: Iterable[str], *, called: tuple[str, str] = ("key", "key")) -> str:
        """Return the message for an unknown key, with the nearest known one."""
        if self._left == 0:
            return f"unknown {called[0]}, one of too many to look for the nearest known one"
        self._left -= 1
        return f"unknown {called[0]}; the nearest known {called[1]} is {nearest(key, known)}"
