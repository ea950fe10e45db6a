"""Findings about one function's file: problems, notices, and the settings in effect."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from headrace.runtime.errors import Problem, masked
from headrace.runtime.settings.checks import as_written
from headrace.runtime.settings.declare import DeclaredSetting, Rule, settings_of
from headrace.runtime.settings.reader import ANNOTATIONS, Origin, ReadResult
from headrace.runtime.settings.types import ANYTHING
from headrace.runtime.settings.yaml_source import Path, YamlSource, show_path

HIDDEN = "(set, not shown)"


@dataclass(frozen=True, slots=True)
class ResolvedSetting:
    """A setting in effect. `value` is JSON, None where the default is no value; a secret is HIDDEN.

    `origin` is where the value comes from. `key` is the annotation or the environment's variables that gave
    it, `line` its line in the file; "" and 0 where there is none.
    """

    path: str
    value: object
    origin: Origin
    key: str = ""
    line: int = 0


def resolved_settings(read: ReadResult[Any], source: YamlSource) -> Iterator[ResolvedSetting]:
    """Yield the settings of a model that are built and have an effect.

    Mappings whose inside is read separately are left out.
    """
    for declared in settings_of(type(read.values)):
        has_effect = declared.setting.built and not declared.setting.no_effect
        if has_effect and declared.shape is not ANYTHING and declared.name not in read.broken:
            yield _resolved(declared, read, source)


def hidden_setting(
    path: Path, given_at: Path, source: YamlSource, variables: tuple[str, ...] = ()
) -> ResolvedSetting:
    """Return the setting for a value at `given_at`, shown as `path`, that may be a secret."""
    if variables:
        key, line = ", ".join(variables), source.line(given_at)
        return ResolvedSetting(show_path(path), HIDDEN, "environment", key, line)
    if source.is_overridden(given_at):  # it stands on no line of the file
        return ResolvedSetting(show_path(path), HIDDEN, "command line")
    return ResolvedSetting(show_path(path), HIDDEN, "attribute", line=source.line(given_at))


def _resolved(declared: DeclaredSetting, read: ReadResult[Any], source: YamlSource) -> ResolvedSetting:
    origin, given_at = read.origins.get(declared.name, "default"), read.paths[declared.name]
    # A value from a variable has a line too: that of the reference to it.
    is_in_file = origin in ("attribute", "annotation") or declared.name in read.variables
    return ResolvedSetting(
        show_path((*read.path, *declared.keys)),
        _shown(declared, attrgetter(declared.name)(read.values), origin),
        origin,
        key=read.variables.get(declared.name) or _key(declared, origin, given_at),
        line=source.line(given_at) if is_in_file else 0,
    )


def _shown(declared: DeclaredSetting, value: object, origin: Origin) -> object:
    if declared.setting.secret:
        return HIDDEN if value else ""  # whether a secret is set may be seen
    if declared.setting.absent and origin == "default":
        return None  # the default only stands for "not given"; the reference says what that means
    return _masked(as_written(value))


def _masked(value: object) -> object:
    """Mask the password that an address may hold, whatever the setting."""
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return masked(value) if isinstance(value, str) else value


def _key(declared: DeclaredSetting, origin: Origin, given_at: Path) -> str:
    if origin == "environment":
        return declared.setting.environment
    return str(given_at[len(ANNOTATIONS)]) if origin == "annotation" else ""


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems, notices and settings of one file, gathered by everything that reads a part of it."""

    source: YamlSource
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    settings: list[ResolvedSetting] = field(default_factory=list)

    def problem(self, path: Path, message: str) -> None:
        """Add a mistake at `path`."""
        self.problems.append(self.source.problem(path, message))

    def notice(self, path: Path, message: str) -> None:
        """Add something at `path` that its author may not expect, and that is no mistake."""
        self.notices.append(self.source.problem(path, message))

    def add_messages_of(self, read: ReadResult[Any]) -> None:
        """Add the problems and notices of one mapping."""
        self.problems.extend(read.problems)
        self.notices.extend(read.notices)

    def check(self, rule: Rule, read: ReadResult[Any], trigger: ReadResult[Any]) -> None:
        """Check a rule on a mapping, if all that the rule reads was read without a problem.

        `trigger` is the mapping's trigger, or the mapping itself.
        """
        # A setting with a problem holds its default, of which the rule would say what nobody has written.
        broken = {*read.broken, *(f"trigger.{name}" for name in trigger.broken)}
        if not broken.isdisjoint(rule.reads):
            return
        if message := rule.check(read.values, trigger.values):
            report = self.problem if rule.is_error else self.notice
            report(read.paths[rule.about], message)

    def add_settings_of(self, read: ReadResult[Any]) -> None:
        """Add the settings of one mapping, which are in effect if the file has no problem."""
        self.settings.extend(resolved_settings(read, self.source))
