"""Conditions of writes, and filters of scans: the same language."""

from functools import lru_cache

from headrace.runtime.embedded.v3io.language.parser import Parser
from headrace.runtime.embedded.v3io.language.syntax import Expression, Lookup


@lru_cache(maxsize=256)
def _parsed(source: str) -> Expression:
    parser = Parser(source)
    condition = parser.expression()
    parser.end()
    return condition


def holds(source: str, lookup: Lookup) -> bool:
    """Whether the condition is true of an item. MalformedError where it is none."""
    return _parsed(source).value(lookup) is True
