"""What a client wants to know before it sends a body: `Expect: 100-continue`, and whether it is too long."""

from aiohttp import HttpVersion11, web

from headrace.triggers.http.answers import closing

_GO_ON = "100-continue"


def refusal_of_body(request: web.BaseRequest, most_bytes: int) -> web.Response | None:
    """The answer at once, by what the head says of the body: nothing of that is read."""
    if (request.content_length or 0) > most_bytes:
        return closing(413, "the body is longer than maxRequestBodySize")
    if _expected(request) not in {"", _GO_ON}:
        return closing(417, "100-continue is all that may be expected")
    return None


def is_waiting(request: web.BaseRequest) -> bool:
    """Whether its body may never come, unless the client is told to go on."""
    return _expected(request) == _GO_ON and not request.content.is_eof()


async def go_on(request: web.BaseRequest) -> None:
    """Tell a client that waits for it; not one that has sent all of its body by now."""
    if is_waiting(request):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer hasn't begun


def _expected(request: web.BaseRequest) -> str:
    """HTTP/1.0 knows of no expectations."""
    if request.version < HttpVersion11:
        return ""
    return ", ".join(request.headers.getall("Expect", ())).strip().lower()
