"""A fault that somebody could make, and the test that is there to notice it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROMISES: Mapping[str, tuple[str, str]] = {
    "clean rebalance": (
        "README.md",
        "A clean rebalance, a clean stop, a scale-out: no completed record runs again.",
    ),
    "kill -9": (
        "README.md",
        "After `kill -9` of a worker, only what it was in: one record, or up to `maxConcurrency`.",
    ),
    "never skipped": (
        "README.md",
        "A record is never skipped unless the function's own `onFailure` says so.",
    ),
    "sending on": (
        "README.md",
        "is confirmed before its record is committed; with `exactlyOnce: true`, exactly once.",
    ),
    "requests": ("docs/guide/http.md", "Nothing is tried again: whoever asked decides."),
    "foreign pages": (
        "docs/operate/security.md",
        "answer no page of another site",
    ),
    "clients": ("docs/guide/http.md", "where more comes, the slowest are ended."),
    "times": ("docs/guide/spark.md", "Workers of a function with `spec.spark` are in UTC,"),
    "firings": ("docs/guide/cron.md", "A clock that is set back by up to a minute repeats nothing."),
}
"""Those beside L1 to L9 of DESIGN.md: the page that makes one, and its words there."""


@dataclass(frozen=True, slots=True)
class Change:
    """Of one file: a text that is there once, and what stands in its place."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault, in words, and how it comes about.

    `promise`: what it breaks, L1 to L9 or one of PROMISES. `test`: pytest's name of what catches it.
    `is_quick`: that test starts no process and no server. `more`: where one change isn't enough.
    """

    name: str
    promise: str
    fault: str
    path: str
    before: str
    after: str
    test: str
    is_quick: bool = True
    more: tuple[Change, ...] = ()

    def texts(self, root: Path) -> dict[Path, str]:
        """The files that it changes, as they are with it.

        Raises ValueError where a text that it replaces isn't there exactly once.
        """
        texts: dict[Path, str] = {}
        for change in (Change(self.path, self.before, self.after), *self.more):
            path = root / change.path
            text = texts.get(path) or path.read_text()
            if (count := text.count(change.before)) != 1:
                raise ValueError(f"{change.path} has it {count} times, not once: {change.before!r}")
            texts[path] = text.replace(change.before, change.after)
        return texts
