"""Written values and what they stand for: variables, scalars where text is meant, secrets in files."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path, PurePosixPath

_REFERENCE = re.compile(
    r"\$(?:(?P<escape>\$)(?=\{)|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})", re.ASCII
)
_WITHOUT_EXPONENT = range(-4, 6)  # powers of ten that Go's %g writes out


class MissingVariableError(ValueError):
    """A variable without a default isn't set. The message is one line with its name."""


def expanded(
    value: object, variables: Mapping[str, str], *, is_pattern: bool = False
) -> tuple[object, tuple[str, ...]]:
    """Return the value with the references in its text, or in a list's texts, replaced, and their names.

    `${NAME}` and `${NAME:-default}` stand for a variable of the environment; `$${` is `${` itself. An empty
    variable is taken for one that isn't set where there is a default, as in a shell. In a pattern, a regular
    expression, a reference stands for its text, unless it is all of the pattern.

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
    return value, tuple(dict.fromkeys(taken))  # each name once, in the order of the text


def text_of_scalar(value: object) -> object:
    """Return the text that Kubernetes' YAML reader makes of a scalar that stands where text is meant.

    Numbers and flags become their text, null becomes empty text. Anything else stays as it is.
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _text_of_float(value)
        case _:
            return value


def _text_of_float(value: float) -> str:
    """Return the shortest text that gives the value back, as Go writes it."""
    exact = Decimal(repr(value))
    if not exact.is_finite():
        return {"Infinity": "+Inf", "-Infinity": "-Inf"}.get(str(exact), "NaN")
    power = exact.adjusted() if exact else 0
    if power in _WITHOUT_EXPONENT:
        return f"{exact:f}".removesuffix(".0")
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    mantissa = f"{digits[0]}.{digits[1:]}".removesuffix(".")
    return f"{'-' if value < 0 else ''}{mantissa}e{power:+03d}"


class SecretFileError(ValueError):
    """A secret's file cannot be read. The message names neither the value nor the content."""


@dataclass(frozen=True, slots=True)
class SecretFolder:
    """The folder that `secretPath` names: a secret that names a file in it stands for its content.

    Without a folder it changes no value.
    """

    folder: Path | None = None

    def content(self, value: str, *, may_be_path: bool = False) -> str:
        """Return the content of the file that `value` names, without the line end editors add; else `value`.

        A value that would lead out of the folder names no file, unless it is a full path and `may_be_path`.
        Raises SecretFileError where the file is there and cannot be read as UTF-8 text.
        """
        file = _existing(Path(value)) if may_be_path and value.startswith("/") else self._file(value)
        if file is None:
            return value
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise SecretFileError(f"its file cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SecretFileError("its file is not UTF-8 text") from None

    def _file(self, value: str) -> Path | None:
        name = PurePosixPath(value)
        if self.folder is None or not value or name.is_absolute() or ".." in name.parts:
            return None
        return _existing(self.folder / name)


def _existing(file: Path) -> Path | None:
    try:
        return file if file.is_file() else None
    except (OSError, ValueError):  # a whole certificate is too long for a file name
        return None
