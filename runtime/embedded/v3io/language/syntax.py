"""The syntax tree of an expression. Each node has a value, which is None where something is absent.

Nothing here raises but `lookup`. Chains are flat, so only parentheses nest, and the parser bounds those. Each
node evaluates each of its parts once, so an evaluation takes no longer than the source is.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.runtime.embedded.v3io.language.values import Value, element, is_number

Lookup = Callable[[str], Value | None]
"""The value of an attribute, None where the item has none of that name."""


class Expression(Protocol):
    def value(self, lookup: Lookup) -> Value | None: ...


@dataclass(frozen=True, slots=True)
class Literal:
    it: Value

    def value(self, lookup: Lookup) -> Value | None:
        return self.it


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str

    def value(self, lookup: Lookup) -> Value | None:
        return lookup(self.name)


@dataclass(frozen=True, slots=True)
class Element:
    name: str
    index: Expression

    def value(self, lookup: Lookup) -> Value | None:
        return element(lookup(self.name), self.index.value(lookup))


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Expression, ...]

    def value(self, lookup: Lookup) -> Value | None:
        return all(part.value(lookup) is True for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Expression, ...]

    def value(self, lookup: Lookup) -> Value | None:
        return any(part.value(lookup) is True for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    part: Expression

    def value(self, lookup: Lookup) -> Value | None:
        # What is absent, or is no condition, counts as false: its negation is true.
        return self.part.value(lookup) is not True


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison. False where a side is absent; values of two types are unequal, and neither is smaller."""

    left: Expression
    sign: str
    right: Expression

    def value(self, lookup: Lookup) -> Value | None:
        left, right = self.left.value(lookup), self.right.value(lookup)
        if left is None or right is None:
            return False
        # No error: items of one directory may have an attribute with values of several types.
        if not _are_comparable(left, right):
            return self.sign == "!="
        return bool(_COMPARISONS[self.sign](left, right))


@dataclass(frozen=True, slots=True)
class OneOf:
    left: Expression
    options: tuple[Expression, ...]

    def value(self, lookup: Lookup) -> Value | None:
        left = self.left.value(lookup)  # once: each level of lists in lists would double the work
        return left is not None and any(_are_equal(left, option.value(lookup)) for option in self.options)


@dataclass(frozen=True, slots=True)
class Exists:
    name: str

    def value(self, lookup: Lookup) -> Value | None:
        return lookup(self.name) is not None


@dataclass(frozen=True, slots=True)
class TextTest:
    """A call of `starts`, `ends` or `contains`; False for what is no text."""

    name: str
    text: Expression
    part: Expression

    def value(self, lookup: Lookup) -> Value | None:
        text, part = self.text.value(lookup), self.part.value(lookup)
        return isinstance(text, str) and isinstance(part, str) and TEXT_TESTS[self.name](text, part)


@dataclass(frozen=True, slots=True)
class IfNotExists:
    name: str
    other: Expression

    def value(self, lookup: Lookup) -> Value | None:
        found = lookup(self.name)
        return self.other.value(lookup) if found is None else found


@dataclass(frozen=True, slots=True)
class Chain:
    """Arithmetic from left to right: `first`, then signs with operands. None where it comes to no number."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]

    def value(self, lookup: Lookup) -> Value | None:
        result = self.first.value(lookup)
        for sign, operand in self.rest:
            result = _calculated(sign, result, operand.value(lookup))
        return result


def _calculated(sign: str, left: Value | None, right: Value | None) -> int | float | None:
    if not is_number(left) or not is_number(right):
        return None
    try:
        result = _ARITHMETIC[sign](left, right)
    except ArithmeticError:  # division by zero, or a double that overflows
        return None
    # Python's ints have no end, and numbers of the web API have 64 bits.
    return result if is_number(result) else None


def _divided(left: float, right: float) -> float:
    """Whole numbers that divide without a rest stay whole, to the last digit."""
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _are_equal(left: Value, right: Value | None) -> bool:
    return right is not None and _are_comparable(left, right) and left == right


def _are_comparable(left: Value, right: Value) -> bool:
    return type(left) is type(right) or (is_number(left) and is_number(right))


_COMPARISONS: dict[str, Callable[..., object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[..., int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
}
TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "starts": str.startswith,
    "ends": str.endswith,
    "contains": operator.contains,
}
COMPARISON_SIGNS = frozenset(_COMPARISONS)
