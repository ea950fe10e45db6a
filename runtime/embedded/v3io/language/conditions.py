"""Conditions of writes, and filters of scans: the same language."""

from functools import lru_cache

from headrace.runtime.embedded.v3io.language.parser import Parser
from headrace.runtime.embedded.v3io.language.steps import Steps
from headrace.runtime.embedded.v3io.language.syntax import Expression, Lookup


@lru_cache(maxsize=32)  # a source may be long
def _parsed_condition(source: str) -> tuple[Expression, int]:
    """The condition, and how many words it has."""
    parser = Parser(source)
    condition = parser.expression()
    parser.end()
    return condition, parser.word_count


def holds(source: str, lookup: Lookup, steps: Steps | None = None) -> bool:
    """Whether the condition is true of an item. MalformedError where it is none, or takes too many steps."""
    condition, word_count = _parsed_condition(source)
    taken = steps or Steps()
    taken.take(word_count)
    return condition.value(taken.counted(lookup)) is True
