"""How much work a condition or an update is: linear in its length, and bounded."""

import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.embedded.v3io.language.evaluation import MAX_STEPS, holds, updated
from headrace.runtime.embedded.v3io.language.values import MalformedError, Value

NESTED: dict[str, tuple[str, str, str]] = {
    "lists": ("(", "a", " IN (7, 8))"),
    "options": ("1 IN (2, (", "a", "))"),
    "parentheses": ("(", "a", ")"),
    "negations": ("NOT (", "a", ")"),
    "sums": ("(1 + ", "a", " + 1)"),
    "comparisons": ("(", "a", " == 1)"),
    "texts": ("contains(", "a", ", 'x')"),
    "parts": ("starts('x', ", "a", ")"),
    "defaults": ("if_not_exists(b, ", "a", ")"),
    "indexes": ("a[", "a", "]"),
}
"""What stands before, inside and behind, again and again."""


def calls_of(use: Callable[[], object]) -> int:
    """How many calls of Python functions that takes."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        use()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", NESTED)
def test_twice_the_depth_is_twice_the_work(shape: str) -> None:
    before, inside, behind = NESTED[shape]
    for use in (lambda it: holds(it, {"a": 0}.get), lambda it: updated(f"x = {it}", {"a": 0}.get)):

        def work(depth: int, use: Callable[[str], object] = use) -> int:
            def tried() -> None:
                try:
                    use(before * depth + inside + behind * depth)
                except MalformedError as error:  # it comes to nothing that an attribute may be
                    assert "can't be set" in str(error)  # noqa: PT017

            return calls_of(tried)

        assert work(10) <= 2.2 * work(5)


@pytest.mark.parametrize("chain", ["a == 1 OR ", "a != 1 AND ", "a * ", "a + ", "NOT ", "- ", "1 IN (a) OR "])
def test_twice_the_length_is_twice_the_work(chain: str) -> None:
    def work(length: int) -> int:
        return calls_of(lambda: holds(chain * length + "a", {"a": 0}.get))

    assert work(400) <= 2.2 * work(200)


NAMES = st.sampled_from(["a", "b", "c"])
SOURCES = st.recursive(
    NAMES | st.sampled_from(["1", "'x'", "true"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR", "==", "<", "+", "/"]), inner)
        | st.builds("({} IN ({}, {}))".format, inner, inner, inner)
        | st.builds("contains({}, {})".format, inner, inner)
        | st.builds("if_not_exists({}, {})".format, NAMES, inner)
        | st.builds("(NOT {})".format, inner)
        | st.builds("{}[{}]".format, NAMES, inner)
    ),
    max_leaves=12,
)


@given(SOURCES, st.dictionaries(NAMES, st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"])))
def test_each_word_is_looked_at_no_more_than_once(source: str, item: dict[str, Value]) -> None:
    looks = Counter[str]()

    def look(name: str) -> Value | None:
        looks[name] += 1
        return item.get(name)

    holds(source, look)
    words = Counter(re.findall(r"\w+", source))
    assert all(count <= words[name] for name, count in looks.items())


@pytest.mark.parametrize(
    "use",
    [
        lambda item: holds(" OR ".join(["big == 1"] * 1000), item.get),
        lambda item: updated("x = big; " * 1000, item.get),
        lambda item: updated("x = big; " + "x = x; " * 1000, item.get),
    ],
    ids=["condition", "update", "update of what it has set"],
)
def test_large_values_are_not_looked_at_again_and_again(use: Callable[[Any], object]) -> None:
    with pytest.raises(MalformedError, match=f"more than {MAX_STEPS} steps") as raised:
        use({"big": b"x" * (1 << 20)})
    assert len(str(raised.value).splitlines()) == 1
