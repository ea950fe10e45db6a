"""The client: what it says of requests that are answered, refused or missing."""

import subprocess
import sys

import pytest
from long_task_scene import Scene

from headrace.functions.long_tasks.client import Answers
from headrace.functions.long_tasks.communication_pb2 import Response


def test_answers_are_told_by_their_keys_and_the_first_one_counts() -> None:
    answers = Answers({b"a": 0, b"b": 1, b"c": 2})
    assert answers.record(b"a", Response(sequence=0, isprocessed=True))
    assert not answers.record(b"a", Response(sequence=0))
    assert answers.record(b"b", Response())
    assert not answers.record(b"of another client", Response(sequence=2, isprocessed=True))
    assert not answers.record(None, Response(sequence=2, isprocessed=True))
    assert (answers.processed, answers.refused, answers.missing) == ({0}, {1}, [2])
    assert answers.repeated == 1


def ask(scene: Scene, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "headrace.functions.long_tasks.client", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=scene.environment())


def test_it_waits_for_its_responses_and_shows_how_many_there_are(scene: Scene) -> None:
    with scene.pool("--workers", "2") as pool:
        pool.wait_ready()
        said = ask(scene, "--count", "20", "--payload", "{}")
        assert said.stdout == "20 processed, 0 not processed, 0 missing\n", said.stderr
        assert "20/20" in said.stderr
        assert said.returncode == 0
        refused = ask(scene, "--count", "2", "--payload", "no JSON")
        assert refused.stdout == "0 processed, 2 not processed, 0 missing\nnot processed: 0, 1\n"
        assert refused.returncode == 0


def test_it_says_what_is_missing_and_ends_with_1(scene: Scene) -> None:
    said = ask(scene, "--count", "12", "--patience", "0.1")
    assert said.stdout == (
        "0 processed, 0 not processed, 12 missing\nmissing: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more\n"
    )
    assert said.returncode == 1


@pytest.mark.full  # the client asks for it for 40 s: it may only just have been made
def test_it_says_that_a_topic_is_not_there(scene: Scene) -> None:
    scene.acks = "no-such-topic"
    said = ask(scene, "--count", "1")
    assert said.returncode == 2
    assert "Traceback" not in said.stderr
    assert "no-such-topic" in said.stderr
