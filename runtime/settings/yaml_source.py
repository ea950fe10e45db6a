"""Reading of YAML text: plain data, and the line that every key and list item stands on.

Only mappings, lists and scalars come out. Messages never repeat a value of the file: it may be a secret, and
the author finds it by its line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from headrace.runtime.errors import Problem, one_line
from headrace.runtime.settings.names import Suggestions
from headrace.runtime.settings.written_values import expanded

Path = tuple[str | int, ...]

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_MAX_DEPTH = 100  # libyaml's composer recurses in C and takes the process down some thousands deep
_MAX_NODES = 100_000  # a few nested aliases can stand for billions of values
_LONGEST_KEY_SHOWN = 100
_INTEGER_BITS = 64  # nothing counts further, and Python refuses to print the longest integers
_PLAIN_TEXT = frozenset({_TAG + "str", _TAG + "timestamp", _TAG + "value"})
_NUMBER_OR_FLAG = frozenset({_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null"})
_INLINE_START = re.compile(r"#\s*@nuclio\.configure\s*")
_INLINE_KEY = "function.yaml"
_NO_INLINE = (
    "has no inline configuration, a comment block that begins with # @nuclio.configure;"
    " add one, or name the function.yaml or its folder"
)


def show_path(path: Path) -> str:
    """Return a path as messages print it, on one line: `spec.triggers.t.attributes.topics[0]`."""
    text = "".join(
        f"[{part}]" if isinstance(part, int) else f".{one_line(part, _LONGEST_KEY_SHOWN)}" for part in path
    )
    return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A file that was read. `data` is None where the text is empty or is no YAML (see `problems`).

    `overrides` are the paths whose values the command line gave instead of the file, `variables` what
    `${NAME}` in a value stands for. `suggestions` are the file's own, and count down.
    """

    file: str
    data: object = None
    lines: Mapping[Path, int] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[Problem, ...] = ()
    overrides: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    suggestions: Suggestions = field(default_factory=Suggestions, repr=False, compare=False)

    def line(self, path: Path) -> int:
        """Return the 1-based line of `path`, or of the nearest part above it that is written down."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def is_overridden(self, path: Path) -> bool:
        """Whether the value at `path`, or one above or below it, comes from the command line."""
        return any(
            path[: len(override)] == override or self._is_made_by(override, path)
            for override in self.overrides
        )

    def _is_made_by(self, override: Path, path: Path) -> bool:
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(override, path, strict=False)))
        # A file without spec lacks that by itself, whatever the command line puts there.
        return any(path[:length] not in self.lines for length in range(min(2, len(path)), shared + 1))

    def renamed(self, old: str, new: str) -> "YamlSource":
        """Return a copy with the top-level key `old` called `new`, on its line; itself where it has both."""
        if not isinstance(self.data, dict) or old not in self.data or new in self.data:
            return self
        data = {new if key == old else key: value for key, value in self.data.items()}
        lines = {(new, *path[1:]) if path[:1] == (old,) else path: at for path, at in self.lines.items()}
        return replace(self, data=data, lines=lines)

    def expanded(self, value: object, *, is_pattern: bool = False) -> tuple[object, tuple[str, ...]]:
        """Expand variables in a written value; return it, and their names. Raises MissingVariableError."""
        return expanded(value, self.variables, is_pattern=is_pattern)

    def problem(self, path: Path, message: str) -> Problem:
        """Return a Problem at `path`, with its line."""
        if self.is_overridden(path):
            return Problem(self.file, 0, show_path(path), message, via="--set")
        return Problem(self.file, self.line(path), show_path(path), message)


def read_yaml(text: str, file: str) -> YamlSource:
    """Read one YAML document. Never raises for what the text holds: `problems` says it instead."""
    try:
        _check_depth(text)  # before the composer, which would take the process down
        node = yaml.compose(text, Loader=_Loader)
        walk = _Walk(file)
        data = None if node is None else walk.value(node, ())
    except yaml.YAMLError as error:
        return YamlSource(file, problems=(_syntax_problem(error, text, file),))
    except UnicodeEncodeError:  # libyaml wants UTF-8, and a lone surrogate has none
        return YamlSource(file, problems=(Problem(file, 0, "", "the text is not valid Unicode"),))
    return YamlSource(file, data, walk.lines, tuple(walk.problems))


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise _error(f"nested more than {_MAX_DEPTH} levels deep", event)


def _error(message: str, at: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = at.start_mark  # the C loader has a mark class of its own
    return yaml.MarkedYAMLError(problem=message, problem_mark=mark)


class _Walk:
    """Conversion of a node tree to plain data. Owns `lines` and `problems` while it goes on."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._constructor = SafeConstructor()
        self._open: set[int] = set()
        self._node_count = 0

    def value(self, node: yaml.Node, path: Path) -> object:
        self._count(node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise _error("an alias refers to a value that contains it", node)
        # Nodes that are being built: an alias to one of them would be endless.
        self._open.add(id(node))
        built = self._collection(node, path)
        self._open.discard(id(node))
        return built

    def _count(self, node: yaml.Node) -> None:
        self._node_count += 1
        if self._node_count > _MAX_NODES:
            raise _error(f"more than {_MAX_NODES} values, aliases expanded", node)

    def _collection(self, node: yaml.Node, path: Path) -> object:
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self._entry(item, item, (*path, at)) for at, item in enumerate(node.value)]
        self._report_tag(node, path)
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        data: dict[str, object] = {}
        own = {id(key) for key, _ in node.value}
        for key, value in self._pairs(node):
            if not isinstance(key, yaml.ScalarNode):
                self._report(key, path, "a key must be plain text, not a list or a mapping")
                continue
            name = str(key.value)
            if name not in data:
                data[name] = self._entry(key, value, (*path, name))
            elif id(key) in own:
                first = self.lines[(*path, name)]
                self._report(key, (*path, name), f"written twice; the first is on line {first}")
        return data

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield a mapping's own pairs, then those that it merges in (`<<`): the first of a key counts."""
        merges = {key for key, _ in node.value if key.tag == _TAG + "merge"}
        if not merges:
            yield from node.value
            return
        yield from ((key, value) for key, value in node.value if key not in merges)
        for key, value in node.value:
            if key in merges:
                yield from self._merged(value)

    def _merged(self, value: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in sources:
            if not isinstance(source, yaml.MappingNode) or id(source) in self._open:
                raise _error("<< merges a mapping or a list of mappings, nothing else", value)
            if len(self._open) > _MAX_DEPTH:
                raise _error(f"nested more than {_MAX_DEPTH} levels deep, merges (<<) included", value)
            self._count(source)
            self._open.add(id(source))
            for key, inner in self._pairs(source):
                self._count(key)  # also what the mapping has itself: that is looked at each time
                yield key, inner
            self._open.discard(id(source))

    def _entry(self, at: yaml.Node, node: yaml.Node, path: Path) -> object:
        self.lines[path] = at.start_mark.line + 1
        return self.value(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        # YAML 1.1 reads 1:30 as ninety; Nuclio's reader doesn't, and nobody means it.
        if node.tag in _PLAIN_TEXT or (":" in node.value and node.tag in _NUMBER_OR_FLAG):
            return str(node.value)
        if node.tag not in _NUMBER_OR_FLAG:
            self._report_tag(node, path)
            return None
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, KeyError, ConstructorError):
            return str(node.value)  # looks like a number and is none: 0x_, !!int text
        is_huge = isinstance(value, int) and value.bit_length() > _INTEGER_BITS
        return str(node.value) if is_huge else value

    def _report_tag(self, node: yaml.Node, path: Path) -> None:
        # The tag itself may be the start of an unquoted password, so it isn't repeated.
        self._report(node, path, "YAML tags (!...) are not accepted; quote a value that begins so")

    def _report(self, node: yaml.Node, path: Path, message: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append(Problem(self.file, line, show_path(path), message))


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is None:  # a character that YAML forbids: the reader knows an offset, not a line
        offset = getattr(error, "position", 0)
        line = text.encode()[:offset].count(b"\n") + 1
        return Problem(file, line, "", "not YAML: a control character that YAML does not allow")
    lines = text.split("\n")
    row = min(mark.line, len(lines) - 1)  # libyaml counts the end of the text as a line of its own
    column = mark.column if row == mark.line else len(lines[row])
    message = _why(str(getattr(error, "problem", "")), lines[row])
    return Problem(file, row + 1, "", f"not YAML: {message} (column {column + 1})")


def _why(message: str, row: str) -> str:
    if row.lstrip(" ").startswith("\t"):
        return "tabs cannot indent; use spaces"
    if "another document" in message:
        return "a second document (---); one file holds one function"
    # Quoted names come from the file, and could be the start of an unquoted secret.
    return re.sub(r"'[^'\s]{3,}'", "a name", message)


def read_inline(text: str, file: str) -> YamlSource:
    """Read a function.yaml that is a comment block in Python source, as Nuclio does.

    The lines are those of `file`. Problems are returned in the source, as by read_yaml. The block:

    # @nuclio.configure
    #
    # function.yaml:
    #   spec:
    #     triggers: ...
    """
    block = _inline_block(text)
    source = read_yaml(block, file)
    if source.problems:
        return source
    data = source.data if isinstance(source.data, dict) else {}
    faults = tuple(
        source.problem((key,), f"unknown key in @nuclio.configure; expected {_INLINE_KEY}")
        for key in data
        if key != _INLINE_KEY
    )
    if _INLINE_KEY not in data and not faults:
        message = (
            f"@nuclio.configure holds no {_INLINE_KEY}: with the configuration below it"
            if block
            else _NO_INLINE
        )
        faults = (source.problem((), message),)
    # Whoever reads the configuration knows nothing of the key around it.
    lines = {path[1:]: line for path, line in source.lines.items() if path[0] == _INLINE_KEY}
    return replace(source, data=data.get(_INLINE_KEY), lines=lines, problems=faults)


def _inline_block(text: str) -> str:
    """Return the block's YAML on the lines and columns where it stands in `text`; "" without one."""
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines, 1) if _INLINE_START.fullmatch(line)), None)
    if start is None:
        return ""
    block = takewhile(lambda line: line.startswith("#"), lines[start:])
    # Empty lines stand for those before the block, so that every problem names its line in the file.
    return "\n" * start + "\n".join(line.replace("#", " ", 1) for line in block)
