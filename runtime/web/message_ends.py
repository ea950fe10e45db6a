"""Where requests end in what has come of a connection: what is left is a head that isn't complete. Pure."""

from collections.abc import Sequence

HEAD_END = b"\r\n\r\n"


class UnclearFramingError(Exception):
    """Requests behind each other, whose ends can't be told without reading chunks."""


def request_ends(data: bytes, begin: int, bodies: Sequence[int | None]) -> list[int]:
    """The end of each request that ends in `data`, as places in it; the first begins at `begin`.

    `bodies` has each one's length, None for one in chunks. Heads that are incomplete have no HEAD_END, so
    behind a last request without a length the last one is its end. Raises UnclearFramingError.
    """
    found: list[int] = []
    for number, length in enumerate(bodies):
        if length is None:
            if number < len(bodies) - 1:
                raise UnclearFramingError
            found.append(data.rfind(HEAD_END) + len(HEAD_END))
        else:
            head = data.find(HEAD_END, begin)
            if head < 0:
                raise UnclearFramingError
            found.append(head + len(HEAD_END) + length)
        begin = found[-1]
    return found
