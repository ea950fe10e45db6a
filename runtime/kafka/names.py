"""Addresses of brokers: `host:port`, `host`, `[::1]:9092`."""

import re

BROKERS_OPTION = "--brokers"
BROKERS_VARIABLE = "HEADRACE_BROKERS"
"""Where brokers are, for every command that needs any."""
DEFAULT_PORT = 9092
"""Kafka's own: where commands look for a broker, and where one of ours is, if it is free."""
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\],/]+)(?::(\d{1,5}))?")


_WEB_ADDRESS = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(?::\d{1,5})?(?:/[^\s@]*)?")


def checked_web_address(text: str) -> str:
    """A token server's. Raises ValueError, with a message that follows the name of what has it."""
    if _WEB_ADDRESS.fullmatch(text) is None:
        raise ValueError("is no address of a token server; expected https://host/path, without a user")
    return text


def checked_addresses(text: str) -> tuple[str, ...]:
    """Of a text with commas between. Raises ValueError, as checked_address does."""
    if "@" in text:
        checked_address(text)  # as a whole: a password may hold commas
    return tuple(checked_address(part.strip()) for part in text.split(","))


def checked_address(text: str) -> str:
    """`text`, if it is one. Raises ValueError, with a message that follows the name of the list."""
    if "@" in text:  # what stands before it may be a password, so nothing of it is shown
        raise ValueError(
            "has an address with a user; expected one such as 127.0.0.1:9092, and who signs in beside it"
        )
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[1] or 1) not in range(1, 65536):
        raise ValueError(f"has {text!r}, which is no broker address; expected one such as 127.0.0.1:9092")
    return text
