"""Which topics carry the responses of models, and of which model."""

import re
from dataclasses import dataclass

# A namespace is a DNS label of Kubernetes. Core 2 writes `model` before a model's name, its document doesn't,
# and the document ends its pattern with a dot.
_NAMESPACE = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_BEHIND_THE_PREFIX = rf"\.(?P<namespace>{_NAMESPACE})\.(?:model\.)?(?P<model>[A-Za-z0-9_-]+)\.outputs\.?"


@dataclass(frozen=True, slots=True)
class Model:
    """As its topic names it. What a response calls its model has a version behind it."""

    namespace: str
    name: str


class ModelTopics:
    """Those of one prefix. Dots in the prefix are dots."""

    def __init__(self, prefix: str) -> None:
        self.pattern = re.escape(prefix) + _BEHIND_THE_PREFIX
        self._matches = re.compile(self.pattern).fullmatch
        self._known: dict[str, Model | None] = {}

    def model_of(self, topic: str) -> Model | None:
        """None where the topic is not one of a model's outputs."""
        if topic not in self._known:
            found = self._matches(topic)
            self._known[topic] = Model(found["namespace"], found["model"]) if found else None
        return self._known[topic]
