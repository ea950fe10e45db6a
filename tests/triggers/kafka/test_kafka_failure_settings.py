"""`onFailure` of a Kafka trigger: what is accepted, refused, noticed, and the policy that it gives."""

from pathlib import Path
from typing import Any

import pytest
from function_files import Change, load_changed, problems_of

from headrace.runtime.config.delivery_policy import FailurePolicy
from headrace.runtime.config.shared_attributes import OnFailureSettings
from headrace.triggers.kafka.settings.model import KafkaSettings

AT = "spec.triggers.t.attributes.onFailure"
DEAD_LETTER = {"then": "deadLetter", "deadLetterTopic": "a.dlq"}


def _on_failure(written: object, **attributes: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        document["spec"]["triggers"]["t"]["attributes"] |= {"onFailure": written, **attributes}

    return change


def _policy(folder: Path, written: object) -> FailurePolicy:
    own = load_changed(folder, _on_failure(written)).triggers[0].settings
    assert isinstance(own, KafkaSettings)
    return own.on_failure.policy


def test_what_is_not_written_is_the_runtimes_own_policy(tmp_path: Path) -> None:
    assert _policy(tmp_path, {}) == OnFailureSettings().policy == FailurePolicy()


def test_everything_that_is_written_is_in_the_policy(tmp_path: Path) -> None:
    times = {"maxAttempts": 2, "backoff": "500ms", "maxBackoff": "1m"}
    assert _policy(tmp_path, {**times, **DEAD_LETTER}) == FailurePolicy(2, 0.5, 60.0, "deadLetter", "a.dlq")


def test_no_wait_and_no_last_attempt_are_legal(tmp_path: Path) -> None:
    written = {"maxAttempts": 0, "backoff": "0s", "maxBackoff": "0s", "then": "skip"}
    assert _policy(tmp_path, written) == FailurePolicy(0, 0.0, 0.0, "skip")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (5, ": this is no mapping"),
        ({"maxAttempts": -1}, ".maxAttempts: -1 is out of range; expected at least 0"),
        ({"maxAttempts": "4"}, ".maxAttempts: '4' is not an int; expected a whole number, without quotes"),
        ({"maxAttemps": 4}, ".maxAttemps: unknown key; the nearest known key is maxAttempts"),
        ({"backoff": 1}, ".backoff: 1 is not a duration; expected something like 10s or 1m30s"),
        ({"backoff": "-1s"}, ".backoff: '-1s' is out of range; expected at least 0s"),
        ({"maxBackoff": "-1s"}, ".maxBackoff: '-1s' is out of range; expected at least 0s"),
        ({"backoff": "2s", "maxBackoff": "1s"}, ".maxBackoff: 1s must not be below backoff, 2s"),
        ({"backoff": "1m"}, ".maxBackoff: 30s must not be below backoff, 1m"),
        ({"then": "retry"}, ".then: 'retry' is not known here; expected 'halt', 'deadLetter' or 'skip'"),
        ({"then": "deadLetter"}, ".deadLetterTopic: is required: then is deadLetter, and failed records"),
        ({"then": "deadLetter", "deadLetterTopic": ""}, ".deadLetterTopic: is required: then is deadLetter"),
        ({**DEAD_LETTER, "deadLetterTopic": "a"}, ".deadLetterTopic: 'a' is one of the trigger's own topics"),
        ({"deadLetterTopic": "a b"}, ".deadLetterTopic: 'a b' is no topic name; expected up to 249 of"),
        ({"deadLetterTopic": ".."}, ".deadLetterTopic: '..' is no topic name"),
        ({"deadLetterTopic": "x" * 250}, f".deadLetterTopic: '{'x' * 59}... is no topic name"),
        ({"deadLetterTopic": ["a"]}, ".deadLetterTopic: the list is not a string"),
    ],
)
def test_wrong_values_are_one_line_each(tmp_path: Path, written: object, says: str) -> None:
    text = problems_of(tmp_path, _on_failure(written))
    assert AT + says in text
    assert text.count("\n") == 0


def test_a_problem_points_at_its_line(tmp_path: Path) -> None:
    text = problems_of(tmp_path, _on_failure({"then": "deadLetter", "backoff": "x"}))
    path = tmp_path / "function.yaml"
    lines = path.read_text().splitlines()
    backoff, section = (
        lines.index(" " * at + key) + 1 for at, key in ((10, "backoff: x"), (8, "onFailure:"))
    )
    assert f"{path}:{backoff}: {AT}.backoff: 'x' is not a duration" in text
    assert f"{path}:{section}: {AT}.deadLetterTopic: is required" in text


def test_a_rule_keeps_quiet_about_broken_values(tmp_path: Path) -> None:
    text = problems_of(tmp_path, _on_failure({"backoff": "x", "maxBackoff": "0s"}))
    assert "maxBackoff" not in text


@pytest.mark.parametrize("then", ["halt", "skip"])
def test_a_dead_letter_topic_that_gets_nothing_is_noticed(tmp_path: Path, then: str) -> None:
    (notice,) = load_changed(tmp_path, _on_failure({"then": then, "deadLetterTopic": "a.dlq"})).notices
    assert f"{AT}.deadLetterTopic: gets nothing while then is {then}" in notice
    assert load_changed(tmp_path, _on_failure(DEAD_LETTER)).notices == ()


def test_retrying_a_whole_batch_for_ever_is_noticed(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        _on_failure({"maxAttempts": 0})(document)
        document["spec"]["triggers"]["t"]["batch"] = {"mode": "enable"}

    (notice,) = load_changed(tmp_path, change).notices
    assert f"{AT}.maxAttempts: 0 never singles out the bad record of a batch" in notice
    assert load_changed(tmp_path, _on_failure({"maxAttempts": 0})).notices == ()
