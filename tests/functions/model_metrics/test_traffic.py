"""The traffic is what the function understands, and its models are as good as they say."""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

import pytest

from headrace.functions.model_metrics.handler import rows_of
from headrace.functions.model_metrics.messages.responses import ModelTopics
from headrace.functions.model_metrics.traffic.models import MODELS, Message

FEEDBACK = "model-feedback"


@dataclass(frozen=True)
class Stored:
    """A message, as a function sees it."""

    message: Message
    offset: int
    shard_id: int = 0
    timestamp: datetime | None = datetime(2026, 5, 17)  # noqa: DTZ001  # as events have it

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def key(self) -> bytes | None:
        return self.message.key

    @property
    def body(self) -> bytes | None:
        return self.message.value

    @property
    def header_list(self) -> list[tuple[str, bytes | None]]:
        return list(self.message.headers)


def test_every_message_is_a_row_and_finds_its_other_one() -> None:
    chance = random.Random(3)
    messages = [
        it for _ in range(50) for model in MODELS for it in model.messages(chance, "acme.prod", FEEDBACK, 0.6)
    ]
    events = [Stored(message, offset) for offset, message in enumerate(messages)]
    rows = rows_of(events, ModelTopics("acme.prod"), FEEDBACK)
    assert not rows.ignored
    assert Counter((row.model_name, row.model_version) for row in rows.responses) == {
        (model.name, model.version): 50 for model in MODELS
    }
    asked = {row.request_id for row in rows.responses}
    assert len(asked) == 150
    assert {row.request_id for row in rows.feedback} < asked
    assert 60 < len(rows.feedback) < 120


@pytest.mark.parametrize(("model", "least", "most"), [(MODELS[0], 0.8, 0.92), (MODELS[1], 0.91, 0.99)])
def test_a_classifier_is_right_as_often_as_it_says(model: object, least: float, most: float) -> None:
    chance = random.Random(5)
    answers = [model.answer(chance) for _ in range(1000)]  # type: ignore[attr-defined]
    right = sum(max(range(3), key=scores.__getitem__) == truth for scores, truth in answers)
    assert least < right / 1000 < most


def test_the_same_seed_is_the_same_traffic() -> None:
    once, again = (
        [m for model in MODELS for m in model.messages(random.Random(1), "p", FEEDBACK, 1)] for _ in "12"
    )
    assert once == again
