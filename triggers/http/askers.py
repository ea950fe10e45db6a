"""Who may ask an http trigger, by its settings: whoever likes to, unless they say otherwise. Pure."""

from collections.abc import Mapping

from headrace.runtime.web import cross_origin
from headrace.runtime.web.hosts import AllowedHosts
from headrace.triggers.http.settings import HttpSettings


class RequestGuard:
    """By the settings of one trigger."""

    def __init__(self, settings: HttpSettings) -> None:
        self._names = AllowedHosts(settings.host, settings.allowed_hosts)
        self._is_protected = settings.cross_origin_protection
        self._has_names = self._is_protected or bool(settings.allowed_hosts)
        self._has_cors = settings.cors.enabled

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Why a request gets 403, in a line; empty where it doesn't."""
        if self._has_names and (refusal := self._names.refusal(headers.get("Host"))):
            return refusal
        is_left_to_cors = self._has_cors and "Origin" in headers
        if not self._is_protected or is_left_to_cors:
            return ""
        return cross_origin.cross_origin_refusal(method, headers, self._names.given)
