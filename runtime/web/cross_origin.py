"""Protection of a server from pages of other sites, by headers that pages can't change. Pure.

The rules are those of Go's http.CrossOriginProtection, and stricter: reading counts too, since a WebSocket
begins with a GET.
"""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from headrace.runtime.web.addresses import is_loopback

_PORTS = {"http": ":80", "https": ":443"}
_OF_FORMS = frozenset({"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
_FOREIGN = "a page of another site asks, and only this server's own may"


class CrossOriginGuard:
    """Refuses requests from pages of other sites, and by a host name that isn't the server's."""

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        """`host` is what the server listens at, `names` are others that it is asked by."""
        self.hosts = AllowedHosts(host, names)

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Return why a request gets 403, in a line; empty where it is let in."""
        return self.hosts.refusal(headers.get("Host")) or cross_origin_refusal(
            method, headers, self.hosts.names
        )


def cross_origin_refusal(method: str, headers: Mapping[str, str], names: Container[str] = ()) -> str:
    """Return why a request of a page of another site is refused, in a line; empty where it is let in.

    `headers` are found whatever their case. `names` are the server's, where a proxy doesn't pass on `Host`.
    Clients that are no browsers send neither of the two headers, and are let in.
    """
    origin = headers.get("Origin")
    match headers.get("Sec-Fetch-Site", ""):
        case "same-origin":  # also where a proxy has changed Host, and where a page hides its origin
            return ""
        case "" | "none":
            is_own = origin is None or _is_own(origin, headers.get("Host", ""), names)
        case _:
            is_own = origin is None and _is_followed_link(method, headers)
    return "" if is_own else _FOREIGN


def is_form_type(content_type: str) -> bool:
    """Whether a form may have this type: pages send such a body anywhere, without asking the server first."""
    return content_type.partition(";")[0].strip().lower() in _OF_FORMS


def _is_own(origin: str, host: str, names: Container[str]) -> bool:
    # The scheme isn't compared: a proxy may have ended the TLS.
    scheme, _, place = origin.lower().partition("://")
    if scheme not in _PORTS:
        return False
    return host.lower() in {place, place + _PORTS[scheme]} or place in names


def _is_followed_link(method: str, headers: Mapping[str, str]) -> bool:
    # Whoever looks at the browser sees such an answer, and no page does.
    how = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return method in {"GET", "HEAD"} and how == ("navigate", "document")


class AllowedHosts:
    """Host names that requests to one server may name in `Host`.

    A page may have its own domain point to this machine: to the browser, this server is that page's then.
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        """`host` is what the server listens at, `names` are others that it is asked by.

        Beyond loopback, any name will do where no `names` are given.
        """
        self.names = frozenset(name.lower() for name in names)
        """Names as they stand in a URL, in lower case, without a port."""
        self._is_local = is_loopback(host)

    def refusal(self, host_header: str | None) -> str:
        """Return why the server isn't asked by this `Host`, in a line; empty where it is."""
        if host_header is None:  # no browser leaves it out; probes in HTTP/1.0 do
            return ""
        name = _host_name(host_header)
        if is_loopback(name) or name in self.names:
            return ""
        if self._is_local:
            return f"{host_header!r} is no name of this machine's own, such as localhost"
        # An address is nobody's to point elsewhere: probes ask by it.
        if not self.names or _is_address(name):
            return ""
        return f"{host_header!r} is none of the names that this server is asked by"


@lru_cache(maxsize=64)  # most requests ask by the same one
def _host_name(host_header: str) -> str:
    """Return the name without its port, in lower case; empty where it can't be told."""
    try:
        return urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
