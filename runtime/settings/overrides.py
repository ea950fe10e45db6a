"""Overrides by `--set KEY=VALUE`: values that the command line gives instead of a function.yaml's."""

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
    """A `--set`: the path in the file, and the value as YAML reads it."""

    path: Path
    value: object


def parse_override(text: str) -> Override:
    """Parse `triggers.orders.numWorkers=4`: a path below spec, and a value in YAML. Raises UsageError."""
    key, equals, written = text.partition("=")
    # "spec." may be left out: nothing outside of it can be set.
    names = key.strip().removeprefix(f"{_SPEC}.").split(".")
    # The value may be a secret: no message repeats it.
    if not equals or not all(names):
        raise UsageError(f"--set {key}: expected KEY=VALUE, such as triggers.orders.numWorkers=4")
    source = read_yaml(written, f"--set {key}")
    if source.problems:
        raise UsageError("\n".join(map(str, source.problems)))
    return Override((_SPEC, *names), source.data)


def parse_overrides(texts: Sequence[str], functions: Sequence[object]) -> tuple[Override, ...]:
    """Parse every `--set` of a command line, which names `functions`. Raises UsageError."""
    if texts and len(functions) > 1:
        raise UsageError("--set names a setting of one function: give one PATH with it")
    return tuple(map(parse_override, texts))


def exposed_keys(texts: Sequence[str]) -> list[str]:
    """Return the keys of those `--set` that seem to give a secret, which lists of processes show."""
    # ${NAME} gives no secret away: its value comes from the environment, which only the user's processes see.
    pairs = (text.partition("=") for text in texts)
    return [key.strip() for key, _, value in pairs if _SECRET.search(key) and "${" not in value]


def overridden(source: YamlSource, overrides: tuple[Override, ...]) -> YamlSource:
    """Return the file with the values in place. A path through something that is no mapping is a problem."""
    for override in overrides:
        source = replace(source, overrides=(*source.overrides, override.path))
        try:
            source = replace(source, data=_replaced(source.data, override.path, override.value))
        except TypeError:
            # Not raised: it is shown with all other problems of the file.
            problem = source.problem(override.path, "leads into something that is no mapping")
            source = replace(source, problems=(*source.problems, problem))
    return source


def _replaced(data: object, path: Path, value: object) -> object:
    """Return a copy of `data` with `value` at `path`. Raises TypeError for a path through no mapping."""
    if not path:
        return value
    if not isinstance(data, dict):
        raise TypeError
    below = data.get(path[0])
    return {**data, path[0]: _replaced({} if below is None else below, path[1:], value)}
