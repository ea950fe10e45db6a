"""Addresses of brokers: `host:port`, `host`, `[::1]:9092`."""

import re

BROKERS_OPTION = "--brokers"
BROKERS_VARIABLE = "HEADRACE_BROKERS"
"""Where brokers are, for every command that needs any."""
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\],/]+)(?::(\d{1,5}))?")


def checked_address(text: str) -> str:
    """`text`, if it is one. Raises ValueError, with a message that follows the name of the list."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[1] or 1) not in range(1, 65536):
        raise ValueError(f"has {text!r}, which is no broker address; expected one such as 127.0.0.1:9092")
    return text
