"""`${NAME}` and `${NAME:-default}` in a file's values: what the environment says. `$${` is `${` itself."""

import re
from collections.abc import Callable, Mapping
from functools import partial

_REFERENCE = re.compile(
    r"\$(?:(?P<escape>\$)(?=\{)|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})", re.ASCII
)


class MissingVariableError(ValueError):
    """A variable without a default isn't set. The message is one line with its name."""


def expanded(
    value: object, variables: Mapping[str, str], *, is_pattern: bool = False
) -> tuple[object, tuple[str, ...]]:
    """The value, with references in a text or in a list's texts replaced, and the variables that were taken.

    An empty variable is taken for one that isn't set where there is a default, as in a shell. In a pattern,
    a regular expression, a reference stands for its text, unless it is all of the pattern.
    Raises MissingVariableError.
    """
    taken: list[str] = []

    def replaced(quoted: Callable[[str], str], found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if found["escape"]:
            return "$"
        text = variables.get(name)
        if text or (text is not None and default is None):
            taken.append(name)
            return quoted(text)
        if default is None:
            advice = f"set it, or write ${{{name}:-default}}, or $${{{name}}} for the text as it stands"
            raise MissingVariableError(f"the environment has no variable {name}: {advice}")
        return quoted(str(default))

    def with_values(text: str) -> str:
        end = (
            text.rfind("}") + 1
        )  # behind it each start would be looked at up to the text's end, and none is one
        quoted = re.escape if is_pattern and not _REFERENCE.fullmatch(text) else str
        return _REFERENCE.sub(partial(replaced, quoted), text[:end]) + text[end:].replace("$${", "${")

    if isinstance(value, str):
        value = with_values(value)
    elif isinstance(value, list):
        value = [with_values(item) if isinstance(item, str) else item for item in value]
    return value, tuple(dict.fromkeys(taken))
