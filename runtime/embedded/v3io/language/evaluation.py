"""How much work one look at an item may be, counted and not timed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from headrace.runtime.embedded.v3io.language.parser import Parser
from headrace.runtime.embedded.v3io.language.syntax import Expression, Lookup
from headrace.runtime.embedded.v3io.language.values import MalformedError, Value, with_element

MOST_STEPS = 50_000


BYTES_PER_STEP = 4096


class Steps:
    """Of all expressions that one item is asked: a step is a word of one, or 4 KiB of a value that it takes.

    Evaluation looks at each word once, so this is all that it can cost.
    """

    def __init__(self) -> None:
        self.count = 0

    def take(self, count: int) -> None:
        """MalformedError where that is more than there may be."""
        self.count += count
        if self.count > MOST_STEPS:
            raise MalformedError(
                f"it takes more than {MOST_STEPS} steps, each a word or {BYTES_PER_STEP} bytes of a value: "
                "make it shorter, or what it looks at smaller"
            )

    def counted(self, lookup: Lookup) -> Lookup:
        """The same values, each counted as often as it is looked at."""

        def look(name: str) -> Value | None:
            value = lookup(name)
            if isinstance(value, str | bytes):
                self.take(len(value) // BYTES_PER_STEP)
            return value

        return look


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


@dataclass(frozen=True, slots=True)
class _Set:
    name: str
    index: Expression | None
    it: Expression

    def new_value(self, lookup: Lookup) -> Value:
        value = self.it.value(lookup)
        if value is None:
            raise MalformedError(
                f"{self.name} can't be set: something that it takes is absent, or it comes to no number"
            )
        if self.index is None:
            return value
        return with_element(lookup(self.name), self.index.value(lookup), value)


@dataclass(frozen=True, slots=True)
class _Remove:
    name: str

    def new_value(self, lookup: Lookup) -> None:
        """None: the attribute goes, if it was there."""


def updated(source: str, lookup: Lookup, steps: Steps | None = None) -> Mapping[str, Value | None]:
    """What is new of an item, None for what it loses: each change sees those before. MalformedError."""
    parser, taken = Parser(source), steps or Steps()
    taken.take(parser.word_count)
    new: dict[str, Value | None] = {}
    current = taken.counted(lambda name: new[name] if name in new else lookup(name))
    for change in _parsed_changes(parser):
        new[change.name] = change.new_value(current)
    return new


def _parsed_changes(parser: Parser) -> list[_Set | _Remove]:
    changes = list[_Set | _Remove]()
    while not parser.is_at_end():
        changes += _changes(parser)
        if not parser.has_mark(";"):
            parser.end()
    if not changes:
        raise MalformedError("an update expression sets or removes something, as in SET age = age + 1")
    return changes


def _changes(parser: Parser) -> list[_Set | _Remove]:
    if parser.has_word("remove", "delete"):
        removed: list[_Set | _Remove] = [_Remove(parser.name())]
        while parser.has_mark(","):
            removed.append(_Remove(parser.name()))
        return removed
    parser.has_word("set")
    name = parser.name()
    index = parser.index()
    parser.mark("=")
    return [_Set(name, index, parser.expression())]
