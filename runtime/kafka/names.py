"""Names that Kafka knows: addresses of brokers (`host:port`, `host`, `[::1]:9092`), and of topics."""

import re

BROKERS_OPTION = "--brokers"
BROKERS_VARIABLE = "HEADRACE_BROKERS"
"""The variable with brokers' addresses, for every command that needs any."""
DEFAULT_PORT = 9092
"""Kafka's own: where commands look for a broker, and where one of ours is, if it is free."""
TOPIC_NAME_PATTERN = r"[A-Za-z0-9._-]{1,249}"
"""Any name that a topic can have, to be built into larger patterns: TOPIC/PARTITION, OUTPUT/TOPIC."""
TOPIC_NAME = re.compile(rf"(?!\.{{1,2}}$){TOPIC_NAME_PATTERN}")
"""Kafka's own rule for a whole name: neither "." nor ".." is one."""
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\],/]+)(?::(\d{1,5}))?")
_WEB_ADDRESS = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(?::\d{1,5})?(?:/[^\s@]*)?")


def checked_web_address(text: str) -> str:
    """Return a token server's address. Raises ValueError, whose text follows a setting's name."""
    if _WEB_ADDRESS.fullmatch(text) is None:
        raise ValueError("is no address of a token server; expected https://host/path, without a user")
    return text


def checked_addresses(text: str) -> tuple[str, ...]:
    """Return the addresses in a text, between commas. Raises ValueError like checked_address."""
    if "@" in text:
        checked_address(text)  # as a whole: a password may hold commas
    return tuple(checked_address(part.strip()) for part in text.split(","))


def checked_address(text: str) -> str:
    """Return `text` if it is an address. Raises ValueError, whose text follows the list's name."""
    if "@" in text:  # what stands before it may be a password, so nothing of it is shown
        raise ValueError(
            "has an address with a user; expected one such as 127.0.0.1:9092, and who signs in beside it"
        )
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[1] or 1) not in range(1, 65536):
        raise ValueError(f"has {text!r}, which is no broker address; expected one such as 127.0.0.1:9092")
    return text
