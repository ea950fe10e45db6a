"""Cross-origin requests: which a browser may make, and what it is told. Pure."""

from collections.abc import Mapping

from headrace.runtime.web import cross_origin
from headrace.runtime.web.addresses import AllowedHosts
from headrace.triggers.http.settings import CorsSettings, HttpSettings

Headers = Mapping[str, str]


PREFLIGHT_VARY = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"


class Cors:
    """By the settings of one trigger. Methods and names of headers are compared whatever their case."""

    def __init__(self, settings: CorsSettings) -> None:
        self._settings = settings
        self.is_enabled = settings.enabled
        self._origins = {origin.lower() for origin in settings.allow_origins}
        self._methods = {method.upper() for method in settings.allow_methods}
        self._headers = {name.lower() for name in settings.allow_headers}

    def is_preflight(self, method: str, headers: Headers) -> bool:
        """Whether a browser asks what it may do; handlers don't see that."""
        is_method = method == self._settings.preflight_request_method
        return self._settings.enabled and is_method and "Access-Control-Request-Method" in headers

    def is_refused(self, headers: Headers) -> bool:
        """A page asks that must not. What comes without an origin comes from no page of another origin."""
        origin = headers.get("Origin")
        return self._settings.enabled and origin is not None and not self._allows(origin)

    def preflight(self, headers: Headers) -> dict[str, str] | None:
        """What a browser is told before it asks; None where it must not."""
        method = headers.get("Access-Control-Request-Method", "").upper()
        asked = headers.get("Access-Control-Request-Headers", "")
        names = {name.strip().lower() for name in asked.split(",")} - {""}
        if self.is_refused(headers) or "Origin" not in headers:
            return None
        if method not in self._methods | {self._settings.preflight_request_method} or names - self._headers:
            return None
        return {
            **self.told(headers),
            "Vary": PREFLIGHT_VARY,
            "Access-Control-Max-Age": str(self._settings.preflight_max_age_seconds),
            "Access-Control-Allow-Methods": ", ".join(self._settings.allow_methods),
            "Access-Control-Allow-Headers": ", ".join(self._settings.allow_headers),
        }

    def told(self, headers: Headers) -> dict[str, str]:
        """What stands beside the answer to a request that isn't refused."""
        if not self._settings.enabled:
            return {}
        told, origin = {"Vary": "Origin"}, headers.get("Origin")
        if origin is not None:
            told["Access-Control-Allow-Origin"] = origin
            if self._settings.allow_credentials:
                told["Access-Control-Allow-Credentials"] = "true"
            if self._settings.expose_headers:
                told["Access-Control-Expose-Headers"] = ", ".join(self._settings.expose_headers)
        return told

    def _allows(self, origin: str) -> bool:
        return "*" in self._origins or origin.lower() in self._origins


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
