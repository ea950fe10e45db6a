"""Who a trigger is to the web API: Nuclio's rules for password, secret and username."""

import os
import uuid
from collections.abc import Mapping

from headrace.runtime.v3io.access import V3ioAccess
from headrace.runtime.v3io.addresses import V3IO_KEY_VARIABLE

GENERATE = "$generate"
"""As a password: the access key that is in the environment."""


def access_of(
    web_api: str, username: str, password: str, secret: str, env: Mapping[str, str] = os.environ
) -> V3ioAccess:
    """A password that is a UUID is an access key, as `secret` is; any other signs in beside a username."""
    if password == GENERATE:
        return V3ioAccess(web_api, env.get(V3IO_KEY_VARIABLE, password))
    if is_access_key(password):
        return V3ioAccess(web_api, password)
    if not secret and not (username and password):
        secret = env.get(V3IO_KEY_VARIABLE, "")
    return V3ioAccess(web_api, secret, username, password)


def is_access_key(text: str) -> bool:
    """Access keys are UUIDs."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
