"""Configuration reference, docs/reference/configuration.md, from the declarations."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from headrace.runtime.config.function_fields import BuildFields, DocumentFields
from headrace.runtime.config.output import output_kinds
from headrace.runtime.config.spark import SparkFields
from headrace.runtime.config.trigger_kinds import NUCLIO_KINDS, TriggerKind, find_kind, trigger_fields
from headrace.runtime.settings.checks import as_written, limits_of
from headrace.runtime.settings.declare import (
    DeclaredSetting,
    KeysLike,
    Settings,
    fields_of,
    settings_of,
    without_annotations,
)
from headrace.runtime.settings.types import ANYTHING, CHOICE

_HEAD = """\
# Configuration

What a function.yaml may say. `headrace schema --markdown` generates this page from the declarations that
validation goes by, `headrace schema` the JSON schema for editors (`specs/function.schema.json`).
`headrace validate --resolved PATH` prints what is in effect for a function, and where each value comes from.

- `--set KEY=VALUE` beats the file. In the file an attribute beats its annotation (`metadata.annotations`),
  and that the default. An empty value (`""`, `[]`) means: not given.
- `fallback` in `--resolved` means that something else stands in: the trigger's `url` for brokers, the
  folder's name for missing metadata, the file's own name for the handler of an inline configuration.
- Durations are text as in Go: `300ms`, `10s`, `1h30m`. Units: ns, us, ms, s, m, h.
- Attributes match whatever their case, all other keys must be spelled as here. An unknown key is an error.
- A setting that is not built yet is refused with a line that says so.
- Inline configuration: a comment block in a handler's file that begins with `# @nuclio.configure` holds
  `function.yaml:` and everything below it. Its handler is `handler` in that file, where it names no other.
"""
_COLUMNS = ("key", "type", "default", "rule", "effect")


def configuration_reference(kinds: Mapping[str, TriggerKind]) -> str:
    """Return the page in Markdown: a table for each part of the file."""
    parts: list[tuple[str, type[Settings]]] = [
        ("The file", DocumentFields),
        ("`spec.spark`", SparkFields),
        ("`spec.build`", BuildFields),
        ("`spec.triggers.NAME`", trigger_fields(kinds.values())),
    ]
    for name, kind in sorted(kinds.items()):
        names = " or ".join(f"`{name}`" for name in (name, *kind.aliases))
        parts.append((f"`spec.triggers.NAME.attributes`, kind {names}", kind.Settings))
    for name, taker in sorted(output_kinds(kinds).items()):
        names = " or ".join(f"`{name}`" for name in (name, *taker.aliases))
        parts.append((f"`spec.outputs.NAME`, kind {names}", without_annotations(taker.OutputSettings)))
    lines = [line for title, model in parts for line in _part(title, model)]
    # Nuclio has several names for some kinds: those that an installed kind goes by are left out.
    others = ", ".join(f"`{kind}`" for kind in NUCLIO_KINDS if find_kind(kind, kinds) is None)
    lines += ["", "## Other kinds of triggers", "", f"Known and not built yet: {others}."]
    return _HEAD + "\n".join(lines) + "\n"


def _part(title: str, model: type[Settings]) -> Iterator[str]:
    yield from ("", f"## {title}")
    if rows := [_row(declared) for declared in settings_of(model)]:
        yield from ("", *table(_COLUMNS, rows))
    if rules := [_rule(model, rule.about, rule.check) for rule in model.rules]:
        # Each once: several rules about a setting may have the same words.
        yield from ("", *dict.fromkeys(rules))
    yield from _ignored(model)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Markdown, line by line."""
    for cells in (columns, ("---",) * len(columns), *rows):
        escaped = (cell.replace("|", "\\|") for cell in cells)  # choices have bars, in code too
        yield f"| {' | '.join(escaped)} |"


def _row(declared: DeclaredSetting) -> tuple[str, ...]:
    setting = declared.setting
    key = "<br>".join(f"`{key}`" for key in (".".join(declared.keys), *setting.annotation_keys()))
    effect = f"None here: {setting.no_effect}." if setting.no_effect else setting.effect
    return (key, _type(declared), _default(declared), _rules(declared), effect)


def _type(declared: DeclaredSetting) -> str:
    if declared.shape is CHOICE:
        return " / ".join(f"`{choice}`" for choice in get_args(declared.field.annotation))
    if declared.shape is ANYTHING:
        return "list" if declared.field.default == [] else "mapping"
    unit = declared.setting.unit
    noun = declared.shape.noun.split(maxsplit=1)[1]  # without its article
    return f"{noun}, {unit}" if unit and noun == "int" else noun


def _default(declared: DeclaredSetting) -> str:
    if declared.setting.absent or declared.field.is_required():
        return declared.setting.absent
    default = as_written(declared.field.get_default(call_default_factory=True))
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{text}`" if text not in ("", "[]", "{}") else ""


def _rules(declared: DeclaredSetting) -> str:
    setting = declared.setting
    # Flags as YAML spells them.
    built = ", ".join(f"`{as_written(value)}`".replace("True", "true") for value in setting.built_values)
    rules = (
        f"required: {setting.required}" if setting.required else "",
        limits_of(declared),
        "" if setting.built else "**not built yet**",
        f"built so far: {built}" if built else "",
        f"or the variable `{setting.environment}`" if setting.environment else "",
        "never shown" if setting.secret else "",
    )
    return "; ".join(filter(None, rules))


def _rule(model: type[Settings], about: str, check: Any) -> str:
    # The docstring is written for this page: it goes on behind the name of the setting.
    keys = next(".".join(d.keys) for d in settings_of(model) if d.name == about)
    return f"- `{keys}`: {inspect.getdoc(check)}"


def _ignored(model: type[Settings]) -> Iterator[str]:
    """A paragraph for each reason why known keys have no effect."""
    by_reason: dict[str, list[str]] = {}
    for key, why in _ignored_keys(model, ""):
        by_reason.setdefault(why, []).append(f"`{key}`")
    for why, keys in by_reason.items():
        yield from ("", f"Known, without effect ({why}): {', '.join(keys)}.")


def _ignored_keys(model: type[Settings], prefix: str) -> Iterator[tuple[str, str]]:
    yield from ((f"{prefix}{key}", why) for key, why in model.ignored.items())
    if isinstance(model.ignored, KeysLike):
        yield f"{prefix}{model.ignored.pattern.pattern}", model.ignored.why
    for declared in fields_of(model):
        if declared.section is not None:
            yield from _ignored_keys(declared.section, f"{prefix}{declared.setting.key}.")
