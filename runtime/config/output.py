"""`spec.outputs` and `spec.produceTopics`: where a function's messages go, and where they may."""

import pathlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from headrace.runtime.config.trigger_kinds import TriggerKind, find_kind
from headrace.runtime.kafka.names import TOPIC_NAME_PATTERN
from headrace.runtime.settings.declare import Settings, setting
from headrace.runtime.settings.findings import Findings
from headrace.runtime.settings.names import NAME_RULE, is_name
from headrace.runtime.settings.reader import ReadContext, ReadResult, read_settings
from headrace.runtime.settings.types import Text, Texts
from headrace.runtime.settings.written_values import MissingVariableError
from headrace.runtime.settings.yaml_source import Path

OUTPUTS: Path = ("spec", "outputs")
TOPICS: Path = ("spec", "produceTopics")
DEFAULT_OUTPUT_KIND = "kafka-cluster"
# OUTPUT/TOPIC, or TOPIC alone: Kafka takes no slash in a topic's name.
_TOPIC = re.compile(rf"([a-z0-9-]+/)?{TOPIC_NAME_PATTERN}")


def _topics(listed: tuple[str, ...]) -> tuple[str, ...]:
    for topic in listed:
        if not _TOPIC.fullmatch(topic):
            raise ValueError(
                f"has {topic!r}, which is no topic; expected TOPIC, or OUTPUT/TOPIC for one of spec.outputs"
            )
    return listed


ProduceTopics = Annotated[Texts, AfterValidator(_topics)]


def place_of(listed: str) -> tuple[str, str]:
    """Return output and topic of an entry of `spec.produceTopics`; no output is the trigger's brokers."""
    output, _, topic = listed.rpartition("/")
    return output, topic


def check_topics(
    listed: tuple[str, ...], outputs: Mapping[str, object], results: Iterable[str], findings: Findings
) -> None:
    """Add a problem for each entry of produceTopics that names no output, and each resultTopic not in it.

    `results` are the topics of the triggers' `resultTopic`.
    """
    for at, (output, _) in enumerate(map(place_of, listed)):
        if output and output not in outputs:
            findings.problem((*TOPICS, at), f"spec.outputs has no {output!r}")
    # Found here, not when the first answer can't be produced.
    for topic in dict.fromkeys(results):
        if topic and topic not in listed:
            findings.problem(
                TOPICS, f"doesn't have {topic}, which a resultTopic is: add it there, or remove it here"
            )


class OutputFields(Settings):
    """Fields of `spec.outputs.NAME` that all kinds have: the settings of each kind derive from it."""

    kind: Text = setting("kind", DEFAULT_OUTPUT_KIND, effect="What the messages go to.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputKind(TriggerKind):
    """A kind of trigger whose source messages may go to. Its class is a triggers.base.TakesOutput too."""

    OutputSettings: type[OutputFields]
    """The declarations of an output of this kind, with the rules between them."""


def output_kinds(kinds: Mapping[str, TriggerKind]) -> dict[str, OutputKind]:
    """Return those of the kinds that an output may be of."""
    return {name: kind for name, kind in kinds.items() if isinstance(kind, OutputKind)}


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """An output. `kind` is the canonical name, `settings` the kind's own model."""

    name: str
    kind: str
    settings: Any  # which only its kind knows


@dataclass(frozen=True, slots=True)
class OutputReader:
    """Reads `spec.outputs`. The findings are the caller's; reading adds to them.

    No annotation and no option of a command says anything of outputs: those are about triggers.
    """

    findings: Findings
    folder: pathlib.Path
    kinds: Mapping[str, TriggerKind]

    def read_all(self, written: object) -> tuple[OutputSpec, ...]:
        """Return the outputs without a problem."""
        if not isinstance(written, dict):
            self.findings.problem(OUTPUTS, "expected a mapping from each output's name to its fields")
            return ()
        specs = [self._spec(name, entry) for name, entry in written.items()]
        return tuple(spec for spec in specs if spec is not None)

    def _spec(self, name: str, entry: object) -> OutputSpec | None:
        path = (*OUTPUTS, name)
        if not is_name(name):
            self.findings.problem(path, f"{name!r} is no name for an output; {NAME_RULE}")
        kind = self._kind(entry, path)
        if kind is None:
            return None
        context = ReadContext(self.findings.source, is_typed=True, folder=self.folder)
        read: ReadResult[OutputFields] = read_settings(kind.OutputSettings, entry, path, context)
        self.findings.add_messages_of(read)
        for rule in kind.OutputSettings.rules:
            self.findings.check(rule, read, read)  # an output has no trigger
        self.findings.add_settings_of(read)
        return None if read.broken else OutputSpec(name, kind.kind, read.values)

    def _kind(self, entry: object, path: Path) -> OutputKind | None:
        """Return the kind of an output; None, with a problem, where it names none."""
        written = entry.get("kind") if isinstance(entry, dict) else None
        try:
            named, _ = self.findings.source.expanded(written)
        except MissingVariableError:
            named = None  # reading the mapping reports it
        name = named if isinstance(named, str) and named else DEFAULT_OUTPUT_KIND
        kinds = output_kinds(self.kinds)
        if (found := find_kind(name, kinds)) is None:
            can = ", ".join(kinds) or "none that is installed"
            self.findings.problem((*path, "kind"), f"kind {name} can't be an output; {can} can")
        return found
