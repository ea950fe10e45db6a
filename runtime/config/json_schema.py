"""JSON schema of function.yaml, from the declarations: for editors, and for whoever writes such files."""

from collections.abc import Mapping
from typing import Any

from headrace.runtime.config.environment import ENV_SCHEMA
from headrace.runtime.config.function_fields import BuildFields, DocumentFields
from headrace.runtime.config.output import DEFAULT_OUTPUT_KIND, OutputKind, output_kinds
from headrace.runtime.config.spark import SparkFields
from headrace.runtime.config.trigger_kinds import NUCLIO_KINDS, TriggerKind, annotated_models, trigger_fields
from headrace.runtime.settings.checks import NOT_BUILT
from headrace.runtime.settings.declare import (
    CHECKED_ANNOTATIONS,
    DeclaredSetting,
    KeysLike,
    Settings,
    fields_of,
    settings_of,
    without_annotations,
)
from headrace.runtime.settings.types import ANYTHING

Schema = dict[str, Any]
_LIMITS = {"minimum", "exclusiveMinimum", "maximum", "minLength"}
_OF_VALUE = {"type", "pattern", "format", "enum", "items"} | _LIMITS
_HEAD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "function.yaml",
    "description": "A function that Headrace runs. The keys of attributes match whatever their case.",
    "definitions": {"variable": {"type": "string", "pattern": r"\$\{[A-Za-z_]"}},
}


def function_schema(kinds: Mapping[str, TriggerKind]) -> Schema:
    """Return the schema, in draft 7.

    `headrace validate` knows more: rules between settings, and what else a text has to be.
    """
    inside = {
        "metadata.annotations": _annotations(kinds),
        "spec.env": ENV_SCHEMA,
        "spec.build": _object(BuildFields),
        "spec.spark": _object(SparkFields),
        "spec.outputs": {"type": "object", "additionalProperties": _output(kinds)},
        "spec.triggers": {"type": "object", "additionalProperties": _trigger(kinds)},
    }
    return _HEAD | _object(DocumentFields, inside)


def _object(
    model: type[Settings], inside: Mapping[str, Schema] | None = None, parent: DeclaredSetting | None = None
) -> Schema:
    """`inside` says, by dotted key, what stands in settings that are read on their own."""
    own = model.model_json_schema(by_alias=True)["properties"]
    properties: Schema = {}
    for declared in fields_of(model, parent):
        key, effect = declared.setting.key, {"description": declared.setting.effect}
        if declared.section is not None:
            properties[key] = _object(declared.section, inside, declared) | effect
        else:
            properties[key] = _setting(declared, own[key]) | (inside or {}).get(".".join(declared.keys), {})
    known = {key: {"description": f"No effect here: {why}."} for key, why in model.ignored.items()}
    found: Schema = {"type": "object", "properties": properties | known, "additionalProperties": False}
    if isinstance(model.ignored, KeysLike):
        found["patternProperties"] = {f"^({model.ignored.pattern.pattern})$": {}}
    required = [d.setting.key for d in fields_of(model) if d.field.is_required()]
    instead = [
        {"anyOf": [{"required": [d.setting.key]}, {"required": [d.setting.required_unless]}]}
        for d in fields_of(model)
        if d.setting.required_unless
    ]
    return found | ({"required": required} if required else {}) | ({"allOf": instead} if instead else {})


def _setting(declared: DeclaredSetting, schema: Schema) -> Schema:
    facts, setting = dict(schema), declared.setting
    # pydantic makes one of the field's name in Python, which no file has.
    facts.pop("title", None)
    if setting.absent:
        facts.pop("default")  # no value that a file could give
    if not setting.built:
        # "not": {} matches nothing: editors mark the key, whatever its value.
        return {"description": f"{setting.effect} It {NOT_BUILT}.", "not": {}}
    if setting.built_values:
        # In place of the type's own list: a value that isn't built is marked as well.
        facts["enum"] = list(setting.built_values)
    return facts if declared.shape == ANYTHING else _or_variable(facts)


def _or_variable(facts: Schema) -> Schema:
    """Also a text with a variable, where not every text will do: `headrace validate` sees what it holds."""
    of_value = {name: fact for name, fact in facts.items() if name in _OF_VALUE}
    if of_value == {"type": "string"}:  # takes ${NAME} as it is
        return facts
    about = {name: fact for name, fact in facts.items() if name not in _OF_VALUE}
    return about | {"anyOf": [of_value, {"$ref": "#/definitions/variable"}]}


def _trigger(kinds: Mapping[str, TriggerKind]) -> Schema:
    names = [name for kind in kinds.values() for name in (kind.kind, *kind.aliases)]
    found = _object(trigger_fields(kinds.values()))
    # Kinds that aren't built are known too: such a trigger may be disabled, or left out by --only-kafka.
    found["properties"]["kind"]["enum"] = sorted({*names, *NUCLIO_KINDS})
    found["allOf"] = [_attributes(kind) for kind in kinds.values()]
    return found


def _attributes(kind: TriggerKind) -> Schema:
    return {
        "if": {"properties": {"kind": {"enum": [kind.kind, *kind.aliases]}}},
        "then": {"properties": {"attributes": _object(kind.Settings)}},
    }


def _output(kinds: Mapping[str, TriggerKind]) -> Schema:
    can = output_kinds(kinds)
    names = [name for kind in can.values() for name in (kind.kind, *kind.aliases)]
    found = {"type": "object", "properties": {"kind": {"enum": sorted(names)}}}
    return found | {"allOf": [_of_output_kind(kind) for kind in can.values()]}


def _of_output_kind(kind: OutputKind) -> Schema:
    is_this: Schema = {"properties": {"kind": {"enum": [kind.kind, *kind.aliases]}}}
    # "properties" alone matches a mapping without the key: right for the default kind, and for no other.
    if kind.kind != DEFAULT_OUTPUT_KIND:
        is_this["required"] = ["kind"]
    return {"if": is_this, "then": _object(without_annotations(kind.OutputSettings))}


def _annotations(kinds: Mapping[str, TriggerKind]) -> Schema:
    known = {
        key: {"type": "string", "description": declared.setting.effect}
        for model in annotated_models(kinds.values())
        for declared in settings_of(model)
        for key in declared.setting.annotation_keys()
    }
    return {
        "type": "object",
        "properties": known,
        "additionalProperties": {"type": "string"},
        # Annotations of other tools are welcome; a mistyped one of ours is marked.
        "propertyNames": {
            "anyOf": [{"enum": sorted(known)}, {"not": {"pattern": f"^({'|'.join(CHECKED_ANNOTATIONS)})"}}]
        },
    }
