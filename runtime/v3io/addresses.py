"""Where a v3io web API is: `http://host:8081`, or `host:8081`."""

import re

V3IO_OPTION = "--v3io"
V3IO_OVERRIDE_VARIABLE = "HEADRACE_V3IO"
"""Stands in for the option: it beats what a file says."""
V3IO_VARIABLE = "V3IO_API"
"""Where the web API is, if nothing else says it; the `v3io` package reads it too."""
V3IO_KEY_VARIABLE = "V3IO_ACCESS_KEY"
_ADDRESS = re.compile(r"(?:(https?)://)?((?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(?::\d{1,5})?)/*")


def checked_web_api(text: str) -> str:
    """With its scheme, without a slash at its end. Raises ValueError, with what follows its name."""
    if "@" in text:  # what stands before it may be a password, so nothing of it is shown
        raise ValueError("has an @; expected an address such as http://v3io-webapi:8081, without a user")
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError("is no address; expected one such as http://v3io-webapi:8081")
    return f"{found[1] or 'http'}://{found[2]}"
