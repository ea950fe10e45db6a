"""Update expressions: attributes that are set, by arithmetic on others, and removed."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.runtime.embedded.v3io.language.arrays import with_element
from headrace.runtime.embedded.v3io.language.errors import MalformedError
from headrace.runtime.embedded.v3io.language.parser import Parser
from headrace.runtime.embedded.v3io.language.steps import Steps
from headrace.runtime.embedded.v3io.language.syntax import Expression, Lookup
from headrace.runtime.embedded.v3io.language.values import Value


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
