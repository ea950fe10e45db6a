"""Secrets that are told from all else by their text, and where they could be seen: output, files, `ps`."""

import base64
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

_HALF_BYTES = 8  # of random: no other text has the same
_LOOK_SECONDS = 0.05


class Canaries:
    """Secrets by name. Half of one counts as found too: a message may be cut."""

    def __init__(self) -> None:
        self._forms: dict[str, set[bytes]] = {}

    def new(self, name: str) -> str:
        """A password. Hexadecimal: it is the same in YAML, JSON, addresses and properties of Java's."""
        return self.add(name, secrets.token_hex(_HALF_BYTES), secrets.token_hex(_HALF_BYTES))

    def add(self, name: str, *parts: str) -> str:
        """A secret of these parts: each of them tells it."""
        self._forms[name] = {form for part in parts for form in _forms(part.encode())}
        return "".join(parts)

    def add_key(self, name: str, pem: str) -> str:
        """A private key: each line of its text tells it, whatever stands at the line's end."""
        lines = [line for line in pem.splitlines() if not line.startswith("-")]
        self.add(name, *(line[-24:] for line in lines if len(line) >= 24))
        return pem

    def found(self, said: bytes | str) -> list[str]:
        """The names of those that are in there, as text, base64 or hexadecimal."""
        data = said.encode() if isinstance(said, str) else said
        return [name for name, forms in self._forms.items() if any(form in data for form in forms)]


def _forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield secret.hex().encode()
    for before in range(3):  # base64 of a longer text depends on where in it the secret stands
        coded = base64.b64encode(b"." * before + secret)
        yield coded[4 if before else 0 :].rstrip(b"=")[:-1]


class Watch:
    """All command lines of this machine, as `ps` shows them to everybody."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._ended = Event()

    def look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    self.seen.add(path.read_bytes())

    def end(self) -> None:
        self._ended.set()

    def having(self, text: bytes) -> set[bytes]:
        return {line for line in self.seen if text in line}


@contextmanager
def watched_command_lines() -> Iterator[Watch]:
    """From now on to the end of the block."""
    watch = Watch()
    thread = Thread(target=watch.look)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join()


def files_with(canaries: Canaries, folders: Sequence[Path]) -> dict[Path, list[str]]:
    """Each file that holds some, and which. What vanishes meanwhile was not kept."""
    found = {}
    for path in (path for folder in folders for path in folder.rglob("*")):
        with suppress(OSError):
            if path.is_file() and path.suffix not in {".index", ".timeindex"}:  # 10 MiB of zeros each
                found[path] = canaries.found(path.read_bytes())
    return {path: names for path, names in found.items() if names}
