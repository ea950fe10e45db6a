"""Requests of browsers: which an http trigger lets in by its settings, and CORS. Pure."""

from collections.abc import Mapping

from headrace.runtime.web.cross_origin import CrossOriginGuard
from headrace.triggers.http.settings import CorsSettings, HttpSettings

Headers = Mapping[str, str]
PREFLIGHT_VARY = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"


class Cors:
    """The CORS of one trigger. Methods and names of headers are compared whatever their case."""

    def __init__(self, settings: CorsSettings) -> None:
        self._settings = settings
        self.is_enabled = settings.enabled
        self._origins = {origin.lower() for origin in settings.allow_origins}
        self._methods = {method.upper() for method in settings.allow_methods}
        self._headers = {name.lower() for name in settings.allow_headers}

    def is_preflight(self, method: str, headers: Headers) -> bool:
        """Whether the request is a browser's preflight, which no handler sees."""
        is_method = method == self._settings.preflight_request_method
        return self._settings.enabled and is_method and "Access-Control-Request-Method" in headers

    def is_refused(self, headers: Headers) -> bool:
        """Whether the request is of a page that must not ask.

        A request without an origin comes from no page of another origin.
        """
        origin = headers.get("Origin")
        return self._settings.enabled and origin is not None and not self._allows(origin)

    def preflight(self, headers: Headers) -> dict[str, str] | None:
        """Return the headers of the answer to a preflight; None where it isn't allowed."""
        method = headers.get("Access-Control-Request-Method", "").upper()
        requested = headers.get("Access-Control-Request-Headers", "")
        names = {name.strip().lower() for name in requested.split(",")} - {""}
        if self.is_refused(headers) or "Origin" not in headers:
            return None
        # The method of preflights themselves need not be among allowMethods.
        if method not in self._methods | {self._settings.preflight_request_method} or names - self._headers:
            return None
        return {
            **self.response_headers(headers),
            # A cache must not give the answer to one page's preflight to another page.
            "Vary": PREFLIGHT_VARY,
            "Access-Control-Max-Age": str(self._settings.preflight_max_age_seconds),
            "Access-Control-Allow-Methods": ", ".join(self._settings.allow_methods),
            "Access-Control-Allow-Headers": ", ".join(self._settings.allow_headers),
        }

    def response_headers(self, headers: Headers) -> dict[str, str]:
        """Return the headers that an answer gets, where the request isn't refused."""
        if not self._settings.enabled:
            return {}
        # Also without an origin: a cache would give that answer, which allows nobody, to pages.
        response_headers, origin = {"Vary": "Origin"}, headers.get("Origin")
        if origin is not None:
            response_headers["Access-Control-Allow-Origin"] = origin
            if self._settings.allow_credentials:
                response_headers["Access-Control-Allow-Credentials"] = "true"
            if self._settings.expose_headers:
                response_headers["Access-Control-Expose-Headers"] = ", ".join(self._settings.expose_headers)
        return response_headers

    def _allows(self, origin: str) -> bool:
        return "*" in self._origins or origin.lower() in self._origins


class RequestGuard:
    """The refusals of one trigger: without crossOriginProtection and allowedHosts it refuses nothing."""

    def __init__(self, settings: HttpSettings) -> None:
        self._guard = CrossOriginGuard(settings.host, settings.allowed_hosts)
        self._is_protected = settings.cross_origin_protection
        self._checks_host = self._is_protected or bool(settings.allowed_hosts)
        self._has_cors = settings.cors.enabled

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Return why a request gets 403, in a line; empty where it doesn't."""
        # With CORS, a request that names its origin is judged by allowOrigins, and not twice.
        is_left_to_cors = self._has_cors and "Origin" in headers
        if self._is_protected and not is_left_to_cors:
            return self._guard.refusal(method, headers)
        return self._guard.hosts.refusal(headers.get("Host")) if self._checks_host else ""
