"""The pages of the documentation, taken apart: blocks of code, and marks that say how a test runs them.

A mark is an HTML comment, which readers don't see. Before a block:

- `file: NAME`: the block is this file of the page's folder; a command or a `try` has to use it
- `below: spec`, `trigger` or `attributes`: a part of a function.yaml that is valid there
- `spec: YAML`: what else that function.yaml has below spec
- `from: PATH`: the very text of this file, which has a test of its own
- `not run: WHY`: nothing runs it

Between blocks: `try: CODE` uses what the last Python block defined, `until: TEXT` waits for the running
function to log it, `stop` ends that function.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {
    *("docs/storm-report.md", "docs/operate/metrics.md"),
    *("docs/reference/configuration.md", "docs/reference/command-line.md"),
}
"""Tested where they are generated."""

_FENCE = re.compile(r"```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^ {4}[^\n]*\n|^\n(?= {4}))+", re.MULTILINE)
_MARK = re.compile(r"<!-- ([a-z -]+?)(?:: (.*?)|:\n(.*?))? ?-->", re.DOTALL)
_PART = re.compile(
    rf"(?P<fence>{_FENCE.pattern})|(?P<mark>{_MARK.pattern})|(?<=\n\n)(?P<indented>{_INDENTED.pattern})",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """Code of a page. An indented block is shell, as a fenced one that says sh."""

    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A comment for the test."""

    line: int
    name: str
    value: str


def pages() -> list[Path]:
    """All that people write."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(path for path in found if str(path.relative_to(ROOT)) not in GENERATED)


def parts(text: str) -> Iterator[Block | Mark]:
    """Blocks and marks, in the page's order."""
    for found in _PART.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if (fence := found["fence"]) is not None:
            whole = _FENCE.fullmatch(fence)
            assert whole
            yield Block(line, whole[1], whole[2])
        elif (mark := found["mark"]) is not None:
            told = _MARK.fullmatch(mark)
            assert told
            yield Mark(line, told[1], (told[2] or told[3] or "").strip())
        else:
            yield Block(line, "sh", "".join(each[4:] + "\n" for each in found["indented"].splitlines()))


def prose(text: str) -> str:
    """What stands between the blocks."""
    return _PART.sub("", text)
