"""Full examples, specs/*-full.yaml: every setting with its default and effect, from the declarations."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from headrace.runtime.config.function_fields import DocumentFields
from headrace.runtime.config.spark import SparkFields
from headrace.runtime.config.trigger_kinds import TriggerKind, trigger_fields
from headrace.runtime.settings.checks import as_written
from headrace.runtime.settings.declare import DeclaredSetting, Setting, Settings, fields_of, settings_of

_WIDTH = 100
_TRIGGER_NAME = "orders"
_INDENT = "  "
_PLAIN = re.compile(r"\w[\w/.-]*(:[a-z]\w*)?")

_KIND_HEAD = """\
Every setting of a {kind} trigger that this version has, with its default. The lines above each say what
goes wrong with it; the name in brackets is the annotation that sets it as well (an attribute beats its
annotation). {required}`headrace schema --example {kind}` generates this file.
"""
_SPARK_HEAD = """\
Everything that spec.spark may say, with its default. `spark: {{}}` is enough: context.spark is then a
SparkSession on a Spark Connect server that Headrace starts on this machine, for all workers of the function.
A job costs tenths of a second whatever its size: hence the batches.
`headrace schema --example {kind} --spark` generates this file.
"""
_FOR_SPARK = {"batch.mode": "enable", "batch.batch_size": 1000}


def kind_example(kind: TriggerKind) -> str:
    """Return a function.yaml with one trigger of the kind and all that it may say, but for `spec.spark`."""
    attributes = _Example().lines(kind.Settings)
    trigger = _Example({"kind": kind.kind}, {"attributes": attributes}).lines(trigger_fields([kind]))
    head = _KIND_HEAD.format(kind=kind.kind, required=_without_default(kind.Settings))
    name = min((kind.kind, *kind.aliases), key=len)  # kafka, not kafka-cluster
    # An example of a kind leaves Spark out: it has an example of its own.
    inside = {"spec.spark": [], "spec.triggers": _named(trigger)}
    return _file(head, _Example({"metadata.name": f"{name}-full"}, inside))


def spark_example(kind: TriggerKind) -> str:
    """Return a function.yaml with all of `spec.spark`, and as little as can be of a trigger of the kind."""
    attributes = _Example(is_brief=True).lines(kind.Settings)
    values = {"kind": kind.kind, **_FOR_SPARK}
    trigger = _Example(values, {"attributes": attributes}, is_brief=True).lines(trigger_fields([kind]))
    inside = {"spec.spark": _Example().lines(SparkFields), "spec.triggers": _named(trigger)}
    head = _SPARK_HEAD.format(kind=kind.kind)
    return _file(head, _Example({"metadata.name": "spark-full"}, inside, is_brief=True))


def _without_default(model: type[Settings]) -> str:
    required = [declared.setting.key for declared in settings_of(model) if declared.setting.required]
    if len(required) > 1:
        return f"{', '.join(required[:-1])} and {required[-1]} have no default. "
    return f"{required[0]} has no default. " if required else ""


def _named(trigger: Sequence[str]) -> list[str]:
    return [f"{_TRIGGER_NAME}:", *_indented(trigger)]


def _file(head: str, example: "_Example") -> str:
    return "\n".join([*_comment(head), "", *example.lines(DocumentFields)]) + "\n"


@dataclass(frozen=True, slots=True)
class _Example:
    """Contents of an example, by dotted Python name: values, and the lines inside of others.

    A brief example has only what it is given and what is required, without comments.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    inside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_brief: bool = False

    def lines(self, model: type[Settings], parent: DeclaredSetting | None = None) -> list[str]:
        """YAML, each setting below what it does. What says nothing inside is left out."""
        last = tuple(self.inside)  # long mappings come last, in this order
        found = sorted(fields_of(model, parent), key=lambda d: last.index(d.name) if d.name in last else -1)
        return [line for declared in found for line in self._entry(declared)]

    def _entry(self, declared: DeclaredSetting) -> Iterator[str]:
        key = declared.setting.key
        if declared.section is not None or declared.name in self.inside:
            body = self._inside(declared)
            entry = [f"{key}:", *_indented(body)] if body else []
        elif self._is_said(declared):
            entry = _key_value(key, self._value(declared))
        else:
            return
        if entry and not self.is_brief:
            yield from _comment(_effect(declared.setting))
        yield from entry

    def _inside(self, declared: DeclaredSetting) -> Sequence[str]:
        if declared.section is None:
            return self.inside[declared.name]
        return self.lines(declared.section, declared)

    def _is_said(self, declared: DeclaredSetting) -> bool:
        setting = declared.setting
        if self.is_brief:
            return declared.name in self.values or bool(setting.required)
        return setting.built and not setting.no_effect and setting.in_examples

    def _value(self, declared: DeclaredSetting) -> object:
        setting = declared.setting
        if declared.name in self.values:
            return self.values[declared.name]
        if setting.example is not None:
            return setting.example
        assert not declared.field.is_required(), f"{setting.key} has no default: declare an example"
        return "" if setting.absent else as_written(declared.field.get_default(call_default_factory=True))


def _effect(setting: Setting) -> str:
    annotations = (f"[{key}]" for key in setting.annotation_keys()[:1])
    return " ".join((setting.effect, *annotations))


def _comment(text: str) -> list[str]:
    # Keys, options and patterns stay whole, however long they are.
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def _indented(lines: Sequence[str]) -> list[str]:
    return [_INDENT + line for line in lines]


def _key_value(key: str, value: Any) -> list[str]:
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        # In the order of the declaration: a variable's name before its value.
        return [f"{key}:", *_indented(yaml.safe_dump(value, sort_keys=False).splitlines())]
    return [f"{key}: {_inline(value)}"]


def _inline(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    # Quotes where YAML would read a number, a flag or a date.
    if isinstance(value, str) and _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
