"""The parser of conditions and expressions. It recurses for what stands in parentheses only."""

import re
from collections.abc import Callable
from typing import NamedTuple

from headrace.runtime.embedded.v3io.language.syntax import (
    COMPARISON_SIGNS,
    TEXT_TESTS,
    AllOf,
    AnyOf,
    Attribute,
    Chain,
    Comparison,
    Element,
    Exists,
    Expression,
    IfNotExists,
    Literal,
    Not,
    OneOf,
    TextTest,
)
from headrace.runtime.embedded.v3io.language.values import MalformedError, check_name, number

MAX_CHARACTERS = 200_000
MAX_TOKENS = 5_000
# Possessive quantifiers never backtrack, so the work is bounded by the length, whatever is sent.
_TOKEN = re.compile(
    r"""(?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<text>'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")
    |(?P<mark>[=!<>]=|[-<>=()\[\],;+*/])""",
    re.DOTALL | re.VERBOSE,
)
_SPACE = re.compile(r"\s*+")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Token(NamedTuple):
    """A token. `kind` is number, word, text, mark or end; a text is without its quotes and escapes."""

    kind: str
    text: str
    at: int


def tokens(source: str) -> list[Token]:
    """Return all tokens of a source, and an `end` last. MalformedError."""
    if len(source) > MAX_CHARACTERS:
        raise MalformedError(f"an expression has at most {MAX_CHARACTERS} characters, not {len(source)}")
    found, at = [], _after_space(source, 0)
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise MalformedError(
                f"at character {at + 1}: {source[at : at + 20]!r} is no word of an expression"
            )
        found.append(_token(match, at))
        if len(found) > MAX_TOKENS:
            raise MalformedError(f"an expression has at most {MAX_TOKENS} words")
        at = _after_space(source, match.end())
    return [*found, Token("end", "the end", at)]


def _token(match: re.Match[str], at: int) -> Token:
    kind = match.lastgroup or ""
    text = _ESCAPED.sub(r"\1", match[0][1:-1]) if kind == "text" else match[0]
    return Token(kind, text, at)


def _after_space(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return match.end() if match else at


MAX_DEPTH = 32


class Parser:
    """Reads a source from left to right. All methods raise MalformedError."""

    def __init__(self, source: str) -> None:
        self._tokens = tokens(source)
        self.word_count = len(self._tokens)
        self._next = 0
        self._depth = 0

    def expression(self) -> Expression:
        """Parse an expression. OR binds least, then AND, NOT, comparisons, + and -, * and /."""
        # Only this recurses: the bound keeps a source of parentheses from overflowing Python's stack.
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MalformedError(f"parentheses nest at most {MAX_DEPTH} deep")
        parts = [self._all_of()]
        while self.has_word("or"):
            parts.append(self._all_of())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def end(self) -> None:
        """Check that nothing follows."""
        if not self.is_at_end():
            raise self.unexpected("the end")

    def is_at_end(self) -> bool:
        return self._token.kind == "end"

    def name(self) -> str:
        """Parse the name of an attribute."""
        token = self._token
        if token.kind != "word":
            raise self.unexpected("the name of an attribute")
        check_name(token.text)
        self._next += 1
        return token.text

    def has_mark(self, *marks: str) -> str:
        """Return the next token where it is one of these marks, and go on behind it; empty where it isn't."""
        token = self._token
        if token.kind != "mark" or token.text not in marks:
            return ""
        self._next += 1
        return token.text

    def has_word(self, *words: str) -> str:
        """Return the next token where it is one of these words, in lower case, and go on; empty otherwise."""
        token = self._token
        if token.kind != "word" or token.text.lower() not in words:
            return ""
        self._next += 1
        return token.text.lower()

    def mark(self, mark: str) -> None:
        """Parse a mark that has to come next."""
        if not self.has_mark(mark):
            raise self.unexpected(repr(mark))

    def index(self) -> Expression | None:
        """Parse what stands in brackets, where some come next; None where they don't."""
        if not self.has_mark("["):
            return None
        index = self.expression()
        self.mark("]")
        return index

    def unexpected(self, expected: str) -> MalformedError:
        token = self._token
        return MalformedError(f"at character {token.at + 1}: expected {expected}, found {token.text[:40]!r}")

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _all_of(self) -> Expression:
        parts = [self._not()]
        while self.has_word("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _not(self) -> Expression:
        count = 0
        while self.has_word("not"):
            count += 1
        # Counted, not nested: a thousand times NOT is as deep as one.
        part = self._comparison()
        negated = Not(part) if count else part
        # Twice, and not without: also what is neither true nor false becomes one of the two.
        return Not(negated) if count and count % 2 == 0 else negated

    def _comparison(self) -> Expression:
        left = self._sum()
        if sign := self.has_mark(*COMPARISON_SIGNS):
            return Comparison(left, sign, self._sum())
        if self.has_word("in"):
            self.mark("(")
            return OneOf(left, self._options())
        return left

    def _options(self) -> tuple[Expression, ...]:
        options = [self._sum()]
        while self.has_mark(","):
            options.append(self._sum())
        self.mark(")")
        return tuple(options)

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._signed, "*", "/")

    def _chain(self, operand: Callable[[], Expression], *signs: str) -> Expression:
        # A flat list, whatever its length: evaluating it needs no recursion.
        first, rest = operand(), []
        while sign := self.has_mark(*signs):
            rest.append((sign, operand()))
        return Chain(first, tuple(rest)) if rest else first

    def _signed(self) -> Expression:
        is_negative = False
        # Signs are folded as they come, for the same reason.
        while sign := self.has_mark("+", "-"):
            is_negative ^= sign == "-"
        if self._token.kind == "number":
            return Literal(self._number("-" if is_negative else ""))
        operand = self._operand()
        return Chain(Literal(0), (("-", operand),)) if is_negative else operand

    def _number(self, sign: str) -> int | float:
        """Parse a number together with its sign: the smallest long has no positive counterpart."""
        self._next += 1
        return number(sign + self._tokens[self._next - 1].text)

    def _operand(self) -> Expression:
        token = self._token
        if self.has_mark("("):
            inner = self.expression()
            self.mark(")")
            return inner
        if token.kind == "text":
            self._next += 1
            return Literal(token.text)
        if word := self.has_word("true", "false"):
            return Literal(word == "true")
        # Names of functions are no keywords: an attribute may have one, if no parenthesis follows.
        # Each word has a token behind it: the last one of all is the end.
        if token.kind == "word" and self._tokens[self._next + 1].text == "(":
            return self._call()
        name = self.name()
        index = self.index()
        return Attribute(name) if index is None else Element(name, index)

    def _call(self) -> Expression:
        function = self.has_word("exists", "if_not_exists", *TEXT_TESTS)
        if not function:
            raise self.unexpected(f"one of exists, if_not_exists, {', '.join(TEXT_TESTS)}")
        self.mark("(")
        if function == "exists":
            made: Expression = Exists(self.name())
        elif function == "if_not_exists":
            name = self.name()
            self.mark(",")
            made = IfNotExists(name, self.expression())
        else:
            text = self.expression()
            self.mark(",")
            made = TextTest(function, text, self.expression())
        self.mark(")")
        return made
