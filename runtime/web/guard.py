"""Who may ask a server of ours: not a page of another site, and nobody by a name that isn't the server's."""

from collections.abc import Iterable, Mapping

from headrace.runtime.web import cross_origin
from headrace.runtime.web.hosts import OwnNames


class Guard:
    """Of one server."""

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        """It listens at `host`, and is asked by these names too."""
        self.names = OwnNames(host, names)

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Why a request gets 403, in a line; empty where it doesn't."""
        return self.names.refusal(headers.get("Host")) or cross_origin.refusal(
            method, headers, self.names.given
        )
