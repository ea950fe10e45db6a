"""Where something is: a container, and names in it."""

from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from headrace.runtime.embedded.v3io.errors import invalid_argument

_MOST_NAMES = 100


class Address(NamedTuple):
    """`bigdata/streams` and `orders`; a container is in the folder ``. `has_slash`: the path ended in one."""

    folder: str
    name: str
    has_slash: bool = False

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def parent(self) -> "Address":
        """Only of what is in a container."""
        folder, _, name = self.folder.rpartition("/")
        return Address(folder, name)

    @property
    def container(self) -> str:
        return self.folder.partition("/")[0] or self.name

    def below(self, name: str) -> "Address":
        return Address(self.path, name)


def parse_address(path: str) -> Address:
    """A path as it stands in a request, whose slashes may repeat. Empty names: the root. V3ioError."""
    try:
        text = unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise invalid_argument("a path is UTF-8, percent-encoded") from error
    if not text.replace(" ", "").isprintable():
        raise invalid_argument("a path has printable characters only")
    names = [name for name in text.split("/") if name]
    if any(name in {".", ".."} for name in names):
        raise invalid_argument("a path has no steps . and ..")
    if len(names) > _MOST_NAMES:
        raise invalid_argument(f"a path has at most {_MOST_NAMES} names")
    return Address("/".join(names[:-1]), names[-1] if names else "", text.endswith("/"))
