"""What reading a function's file brings up: problems, notices, and the settings in effect."""

from dataclasses import dataclass, field
from typing import Any

from headrace.runtime.errors import Problem
from headrace.runtime.settings.declare import Rule
from headrace.runtime.settings.reader import ReadResult
from headrace.runtime.settings.resolved import ResolvedSetting, resolved_settings
from headrace.runtime.settings.yaml_source import Path, YamlSource


@dataclass(frozen=True, slots=True)
class Findings:
    """Of one file, gathered by everything that reads a part of it."""

    source: YamlSource
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    settings: list[ResolvedSetting] = field(default_factory=list)

    def problem(self, path: Path, message: str) -> None:
        """Something wrong at `path`."""
        self.problems.append(self.source.problem(path, message))

    def notice(self, path: Path, message: str) -> None:
        """Something at `path` that its author may not expect, and that is no mistake."""
        self.notices.append(self.source.problem(path, message))

    def keep(self, read: ReadResult[Any]) -> None:
        """The problems and notices of one mapping."""
        self.problems.extend(read.problems)
        self.notices.extend(read.notices)

    def check(self, rule: Rule, read: ReadResult[Any], trigger: ReadResult[Any]) -> None:
        """Whether a mapping keeps a rule, all of which was read without a problem.

        It stands in `trigger`, or is it.
        """
        broken = {*read.broken, *(f"trigger.{name}" for name in trigger.broken)}
        if not broken.isdisjoint(rule.reads):
            return
        if message := rule.check(read.values, trigger.values):
            report = self.problem if rule.is_error else self.notice
            report(read.paths[rule.about], message)

    def resolve(self, read: ReadResult[Any]) -> None:
        """The settings of one mapping, which are in effect if the file has no problem."""
        self.settings.extend(resolved_settings(read, self.source))
