"""The evaluation of conditions and update expressions on an item; the work is bounded by counting it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from headrace.runtime.embedded.v3io.language.parser import Parser
from headrace.runtime.embedded.v3io.language.syntax import Expression, Lookup
from headrace.runtime.embedded.v3io.language.values import MalformedError, Value, with_element

MAX_STEPS = 50_000
BYTES_PER_STEP = 4096


class Steps:
    """Counts the work of all expressions about an item: a step is a token, or 4 KiB of a value that it takes.

    Evaluation looks at each token once, so this is all that it can cost.
    """

    def __init__(self) -> None:
        self.count = 0

    def take(self, count: int) -> None:
        """Count steps. MalformedError where there are more than MAX_STEPS."""
        self.count += count
        if self.count > MAX_STEPS:
            raise MalformedError(
                f"it takes more than {MAX_STEPS} steps, each a word or {BYTES_PER_STEP} bytes of a value: "
                "make it shorter, or what it looks at smaller"
            )

    def counted(self, lookup: Lookup) -> Lookup:
        """Return a lookup of the same values, which counts each as often as it is looked up."""

        def counted_lookup(name: str) -> Value | None:
            value = lookup(name)
            if isinstance(value, str | bytes):
                self.take(len(value) // BYTES_PER_STEP)
            return value

        return counted_lookup


@lru_cache(maxsize=32)  # a source may be long
def _parsed_condition(source: str) -> tuple[Expression, int]:
    """Return the condition, and how many tokens it has."""
    parser = Parser(source)
    condition = parser.expression()
    parser.end()
    return condition, parser.word_count


def holds(source: str, lookup: Lookup, steps: Steps | None = None) -> bool:
    """Whether a condition is true of an item. MalformedError where it is none, or takes too many steps."""
    # Parsed once for all items of a scan; its tokens count for each item, since they are evaluated for each.
    condition, word_count = _parsed_condition(source)
    taken = steps or Steps()
    taken.take(word_count)
    # Only true itself: an attribute's number or text, taken as a condition, doesn't hold.
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
        """Return None: the attribute is removed, if it was there."""


def updated(source: str, lookup: Lookup, steps: Steps | None = None) -> Mapping[str, Value | None]:
    """Return an item's new values, None for removed ones. Each change sees those before. MalformedError."""
    parser, taken = Parser(source), steps or Steps()
    taken.take(parser.word_count)
    new: dict[str, Value | None] = {}
    # Later changes see the earlier ones, also that an attribute has gone.
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
