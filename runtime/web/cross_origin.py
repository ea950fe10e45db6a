"""Whether a page of another site asks, by what browsers say of it and pages can't change. Pure.

As Go's http.CrossOriginProtection, and stricter: reading counts too, since a WebSocket begins with a GET.
"""

from collections.abc import Container, Iterable, Mapping

from headrace.runtime.web.addresses import AllowedHosts

_PORTS = {"http": ":80", "https": ":443"}
_OF_FORMS = frozenset({"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
_FOREIGN = "a page of another site asks, and only this server's own may"


class CrossOriginGuard:
    """Who may ask one server: no page of another site, and nobody by a name that isn't the server's."""

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        """It listens at `host`, and is asked by these names too."""
        self.names = AllowedHosts(host, names)

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Why a request gets 403, in a line; empty where it doesn't."""
        return self.names.refusal(headers.get("Host")) or cross_origin_refusal(
            method, headers, self.names.given
        )


def cross_origin_refusal(method: str, headers: Mapping[str, str], names: Container[str] = ()) -> str:
    """Why a request is refused, in a line; empty where it isn't.

    `headers` are found whatever their case. `names` are the server's, where a proxy doesn't pass on `Host`.
    What is no browser sends neither of the two headers, and is let in.
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
    """Whether a form may have it: then pages send such a body anywhere, without asking the server first."""
    return content_type.partition(";")[0].strip().lower() in _OF_FORMS


def _is_own(origin: str, host: str, names: Container[str]) -> bool:
    """The scheme isn't compared: a proxy may have ended the TLS."""
    scheme, _, place = origin.lower().partition("://")
    if scheme not in _PORTS:
        return False
    return host.lower() in {place, place + _PORTS[scheme]} or place in names


def _is_followed_link(method: str, headers: Mapping[str, str]) -> bool:
    """Then whoever looks at the browser sees the answer, and no page does."""
    how = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return method in {"GET", "HEAD"} and how == ("navigate", "document")
