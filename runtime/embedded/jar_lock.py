"""The sha256 of each jar that Headrace fetches of its own accord: what isn't that very jar isn't used."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JarLock:
    """`digests` are by file name. An open set may hold more: what a user named, and what that brings."""

    digests: Mapping[str, str]
    is_open: bool = False

    def complaint(self, folder: Path) -> str | None:
        """What is wrong with the jars of `folder`, None where nothing is. 0.1 s for Kafka's 44 MB."""
        found = {path.name: path for path in sorted(folder.glob("*.jar"))}
        for name, path in found.items():
            expected = self.digests.get(name)
            if expected is None and not self.is_open:
                return f"{name} is none of the jars that Headrace knows"
            if expected is not None and (wrong := _difference(path, expected)):
                return f"{name} {wrong}"
        missing = [] if self.is_open else sorted(self.digests.keys() - found.keys())
        return f"{missing[0]} is missing" if missing else None


def read_lock(path: Path, pattern: str) -> dict[str, str]:
    """sha256 by file name, from lines of `organisation:artifact:revision sha256`; `pattern` is a JarSet's."""
    lines = (line.split() for line in path.read_text().splitlines() if not line.startswith("#"))
    return {jar_file_name(coordinates, pattern): digest for coordinates, digest in lines}


def jar_file_name(coordinates: str, pattern: str) -> str:
    """How Ivy names the jar, which has no classifier."""
    name = pattern.replace("(-[classifier])", "").replace("[ext]", "jar")
    for part, value in zip(("organisation", "artifact", "revision"), coordinates.split(":"), strict=True):
        name = name.replace(f"[{part}]", value)
    return name


def sha256(path: Path) -> str:
    """In hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _difference(path: Path, expected: str) -> str | None:
    try:
        found = sha256(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if found != expected:
        return f"is another than the one that Headrace knows: its sha256 is {found}, not {expected}"
    return None
