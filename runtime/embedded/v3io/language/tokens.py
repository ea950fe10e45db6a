"""The words of a condition or an expression."""

import re
from typing import NamedTuple

from headrace.runtime.embedded.v3io.language.errors import MalformedError

MOST_CHARACTERS = 200_000
MOST_TOKENS = 5_000

# Possessive: whatever is sent, it is looked at once.
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
    """`kind` is number, word, text, mark or end; a text is without its quotes and escapes."""

    kind: str
    text: str
    at: int


def tokens(source: str) -> list[Token]:
    """All of them, an `end` last. MalformedError."""
    if len(source) > MOST_CHARACTERS:
        raise MalformedError(f"an expression has at most {MOST_CHARACTERS} characters, not {len(source)}")
    found, at = [], _after_space(source, 0)
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise MalformedError(
                f"at character {at + 1}: {source[at : at + 20]!r} is no word of an expression"
            )
        found.append(_token(match, at))
        if len(found) > MOST_TOKENS:
            raise MalformedError(f"an expression has at most {MOST_TOKENS} words")
        at = _after_space(source, match.end())
    return [*found, Token("end", "the end", at)]


def _token(match: re.Match[str], at: int) -> Token:
    kind = match.lastgroup or ""
    text = _ESCAPED.sub(r"\1", match[0][1:-1]) if kind == "text" else match[0]
    return Token(kind, text, at)


def _after_space(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return match.end() if match else at
