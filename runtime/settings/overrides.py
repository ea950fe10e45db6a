"""`--set key=value`: values of a function.yaml that the command line gives instead of the file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.runtime.errors import UsageError
from headrace.runtime.settings.yaml_source import Path, YamlSource, read_yaml

_SPEC = "spec"
# By the sound of it: the value is no setting yet, and may lie in a mapping of the user's own.
_SECRET = re.compile(r"password|secret(?!path)|token(?!url)|credential|accesskey|privatekey", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Override:
    """One `--set`: where in the file, and the value as YAML reads it."""

    path: Path
    value: object


def parse_override(text: str) -> Override:
    """`triggers.orders.attributes.sessionTimeout=20s`: a path below spec, and YAML. Raises UsageError."""
    key, equals, written = text.partition("=")
    names = key.strip().removeprefix(f"{_SPEC}.").split(".")
    # The value may be a secret: no message repeats it.
    if not equals or not all(names):
        raise UsageError(f"--set {key}: expected KEY=VALUE, such as triggers.orders.numWorkers=4")
    source = read_yaml(written, f"--set {key}")
    if source.problems:
        raise UsageError("\n".join(map(str, source.problems)))
    return Override((_SPEC, *names), source.data)


def parse_overrides(texts: Sequence[str], functions: Sequence[object]) -> tuple[Override, ...]:
    """All of a command line, which names `functions`. Raises UsageError."""
    if texts and len(functions) > 1:
        raise UsageError("--set names a setting of one function: give one PATH with it")
    return tuple(map(parse_override, texts))


def exposed_keys(texts: Sequence[str]) -> list[str]:
    """Of those that seem to give secrets themselves: whoever lists processes sees them."""
    pairs = (text.partition("=") for text in texts)
    return [key.strip() for key, _, value in pairs if _SECRET.search(key) and "${" not in value]


def overridden(source: YamlSource, overrides: tuple[Override, ...]) -> YamlSource:
    """The file with the values in place; what they go through must be mappings, or is a problem."""
    for override in overrides:
        source = replace(source, overrides=(*source.overrides, override.path))
        try:
            source = replace(source, data=_replaced(source.data, override.path, override.value))
        except TypeError:
            problem = source.problem(override.path, "leads into something that is no mapping")
            source = replace(source, problems=(*source.problems, problem))
    return source


def _replaced(data: object, path: Path, value: object) -> object:
    """A copy of `data` with `value` at `path`. Raises TypeError."""
    if not path:
        return value
    if not isinstance(data, dict):
        raise TypeError
    below = data.get(path[0])
    return {**data, path[0]: _replaced({} if below is None else below, path[1:], value)}
