"""What is where: a stream in a container, its shards, and the items beside them."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class StreamPath:
    """A stream. `path` has no slash at either end."""

    container: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "StreamPath":
        """Of `container/path`. Raises ValueError, with what follows the text's name."""
        container, _, path = text.strip("/").partition("/")
        if not container or not path.strip("/"):
            raise ValueError(f"{text!r} is no stream; expected CONTAINER/PATH, such as bigdata/orders")
        return cls(container, path.strip("/"))

    @property
    def url_path(self) -> str:
        """Of the stream itself, which ends in a slash."""
        return f"/{quote(self.container)}/{quote(self.path)}/"

    def beside(self, name: object) -> str:
        """Of what lies in it: a shard by its number, the state of a group."""
        return self.url_path + quote(str(name))

    def __str__(self) -> str:
        return f"{self.container}/{self.path}"
