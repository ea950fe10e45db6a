"""Function files with something wrong in them, and what must hold for each.

`make fuzz` tries 50,000 and prints the distribution.
"""

import argparse
import copy
import gc
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from function_files import KINDS, SPECS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError

MOST_SECONDS = 0.1
_LONGEST_LINE = 800
_FILES = [path.read_text() for path in sorted(SPECS.glob("*.yaml"))]
_DOCUMENTS: list[dict[str, Any]] = [yaml.safe_load(text) for text in _FILES]

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["10s", "-1s", "1h30m", "", "0", "9" * 5000, "x" * 5000, "a\nb", "\x1b[31m", "\u2028", "pool"]
    ),
)
_keys = st.text(max_size=10) | st.sampled_from(["enable", "name", "<<", "a\nb", "k" * 3000])
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=6,
)
# What no dump of a value produces.
_snippets = st.sampled_from(
    [
        "\t",
        "\n",
        "\n\n",
        " ",
        "  ",
        ":",
        ": ",
        "- ",
        "'",
        '"',
        "{",
        "}",
        "[",
        "]",
        "#",
        "|",
        ">",
        "%",
        "@",
        "`",
        "&a ",
        "*a",
        "<<: ",
        "!!",
        "!!python/object:x ",
        "!!binary ",
        "---\n",
        "...\n",
        "? ",
        "\r",
        "\r\n",
        "\0",
        "0x" + "f" * 5000,
        "0b1",
        "1_0",
        "1:30",
        ".inf",
        ".nan",
        "~",
        "null",
        "yes",
        "2020-01-01",
        "\ufeff",
    ]
)


@st.composite
def mutated_texts(draw: st.DrawFn) -> str:
    """The text of a published function.yaml, changed in a few places: as a document, then as text."""
    number = draw(st.integers(0, len(_FILES) - 1))
    text = _FILES[number]
    if draw(st.booleans()):
        document = copy.deepcopy(_DOCUMENTS[number])
        for _ in range(draw(st.integers(1, 3))):
            _mutate_document(draw, document)
        text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    for _ in range(draw(st.integers(0, 3))):
        text = _mutated_text(draw, text)
    return text


def _containers(node: object) -> Iterator[Any]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if inner:
        yield node
    for value in inner:
        yield from _containers(value)


def _mutate_document(draw: st.DrawFn, document: dict[str, Any]) -> None:
    found = list(_containers(document))
    if not found:
        return
    container = draw(st.sampled_from(found))
    at = draw(st.sampled_from(list(container) if isinstance(container, dict) else range(len(container))))
    match draw(st.sampled_from(["replace", "remove", "rename", "move"])):
        case "rename" if isinstance(container, dict):
            container[draw(st.sampled_from([at.lower(), at[:-1]]) | _keys)] = container.pop(at)
        case "remove":
            del container[at]
        case "move":
            other = draw(st.sampled_from([c for c in found if isinstance(c, dict)]))
            other[str(at)] = copy.deepcopy(container[at])
        case _:
            container[at] = draw(_values)


def _mutated_text(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    row, at = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(text)))
    match draw(st.sampled_from(["insert", "cut", "drop", "repeat", "indent", "swap"])):
        case "insert":
            return text[:at] + draw(_snippets | st.text(max_size=3)) + text[at:]
        case "cut":
            return text[:at] + text[at + draw(st.integers(1, 40)) :]
        case "drop":
            del lines[row]
        case "repeat":
            lines.insert(row, lines[row])
        case "indent":
            lines[row] = draw(st.sampled_from(["  ", " ", "\t", "- "])) + lines[row]
        case _:
            lines[row], lines[-1] = lines[-1], lines[row]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a file was taken: how many problems, and the processor time that it took to find them."""

    problem_count: int
    seconds: float


def check(folder: Path, text: str) -> Outcome:
    """Load the file. It must give a function, or problems of one clear line each; nothing else is raised."""
    file = folder / "function.yaml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    lines: list[str] = []
    gc.disable()  # a collection would look through all that has gathered here, and count against this file
    start = time.thread_time()
    try:
        load_function(file, KINDS)
    except ConfigError as error:
        lines = [str(problem).removeprefix(f"{file}:").strip() for problem in error.problems]
    seconds = time.thread_time() - start
    gc.enable()
    for line in lines:
        assert line.isprintable(), repr(line)
        assert len(line) <= _LONGEST_LINE, line
        assert ": " in line or line.startswith("is "), line
        assert "Traceback" not in line, line
    return Outcome(len(lines), seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50_000)
    count = parser.parse_args().count
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:

        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(mutated_texts())
        def fuzz(text: str) -> None:
            outcomes.append(check(Path(folder), text))

        fuzz()
    sys.exit(0 if _report(outcomes) else 1)


def _report(outcomes: list[Outcome]) -> bool:
    """Print the distribution; whether all were quick enough."""
    counts = Counter(min(outcome.problem_count, 10) for outcome in outcomes)
    milliseconds = sorted(outcome.seconds * 1000 for outcome in outcomes)
    print(f"{len(outcomes)} files: {counts[0]} valid, {len(outcomes) - counts[0]} refused")
    for problems, found in sorted(counts.items()):
        print(f"  {'10 or more' if problems == 10 else problems} problems: {found}")
    centiles = statistics.quantiles(milliseconds, n=100)
    figures = f"median {centiles[49]:.1f}, p99 {centiles[98]:.1f}, most {milliseconds[-1]:.1f}"
    print(f"ms of processor time: {figures}")
    return milliseconds[-1] <= MOST_SECONDS * 1000


if __name__ == "__main__":
    main()
