"""The handler, attempt by attempt, in this process: what it produces, keeps and tells the task."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import second_decoder

from headrace.functions.long_tasks.checkpoints import Progress
from headrace.functions.long_tasks.communication_pb2 import Request
from headrace.functions.long_tasks.handler import handler, init_context
from headrace.testing import Record, TrialResult, run_handler

calls: list[dict[str, Any]] = []


def obey(request: Request, progress: Progress, **arguments: Any) -> None:
    """The payload says what to do."""
    calls.append({"sequence": request.sequence, "saved": progress.saved, **arguments})
    match request.payload.partition(" "):
        case ("raise", _, why):
            raise RuntimeError(why)
        case ("save", _, state):
            progress.save(state.encode())
        case ("save-and-raise", _, state):
            progress.save(state.encode())
            raise RuntimeError(state)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As function.yaml makes it."""
    monkeypatch.setenv("KAFKA_ACK_TOPIC", "acks")
    monkeypatch.setenv("TASK", f"{__name__}:obey")
    monkeypatch.setenv("TASK_ARGUMENTS", '{"dummy": "dummy"}')
    monkeypatch.setenv("TASK_ATTEMPTS", "3")
    monkeypatch.setenv("TASK_CHECKPOINTS", str(tmp_path))
    yield
    calls.clear()


def request(sequence: int, payload: str = "", **about: Any) -> Record:
    return Record(Request(sequence=sequence, payload=payload).SerializeToString(), **about)


def run(*records: Record | bytes | None) -> TrialResult:
    return run_handler(handler, records, init_context=init_context)


def responses(trial: TrialResult) -> list[tuple[bytes | None, tuple[int, bool]]]:
    assert {message.topic for message in trial.produced} <= {"acks"}
    values = [message.value for message in trial.produced]
    assert None not in values
    return [(m.key, second_decoder.response(m.value or b"")) for m in trial.produced]


def test_a_response_has_the_key_and_the_sequence_of_its_request() -> None:
    trial = run(request(7, key=b"a"), request(-1, key=b"b"), request(8))
    assert trial.failures == []
    assert responses(trial) == [(b"a", (7, True)), (b"b", (-1, True)), (None, (8, True))]


def test_a_task_gets_the_arguments_of_the_start_and_the_number_of_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(request(0))
    monkeypatch.setenv("HEADRACE_REPLICA", "3")
    run(request(1))
    assert [(call["dummy"], call["worker_number"]) for call in calls] == [("dummy", 0), ("dummy", 3)]


def test_what_raises_has_no_response_and_is_not_committed() -> None:
    trial = run(request(0), request(1, "raise it's bad", attempt=3), request(2))
    assert [sequence for _, (sequence, _) in responses(trial)] == [0, 2]
    assert len(trial.failures) == 1
    assert "it's bad" in trial.failures[0]
    assert trial.committed == {("topic", 0): 1}


def test_after_its_attempts_it_is_answered_without_being_run() -> None:
    trial = run(request(5, key=b"a", attempt=4))
    assert calls == []
    assert responses(trial) == [(b"a", (5, False))]
    assert "GivenUpError: the task has failed 3 times; the log says how" in trial.failures[0]


def test_a_dead_letter_says_what_was_raised_last_where_this_worker_knows() -> None:
    def begin(context: Any) -> None:
        init_context(context)
        context.user_data.failures["topic", 0] = 4, "it's bad"

    for offset, said in ((4, "the last one: it's bad"), (5, "the log says how")):
        trial = run_handler(handler, [request(5, attempt=4, offset=offset)], init_context=begin)
        assert f"failed 3 times; {said}" in trial.failures[0]


def test_a_negative_response_of_sequence_0_is_no_bytes_and_no_tombstone() -> None:
    trial = run(request(0, key=b"a", attempt=4))
    assert [(message.key, message.value) for message in trial.produced] == [(b"a", b"")]


@pytest.mark.parametrize("body", [b"\xff", None], ids=["garbage", "a tombstone"])
def test_what_is_no_request_fails_and_is_answered_by_its_key(body: bytes | None) -> None:
    trial = run(Record(body, key=b"a"), Record(body, key=b"a", attempt=4))
    assert len(trial.failures) == 2
    assert responses(trial) == [(b"a", (0, False))]


def test_no_bytes_are_a_request() -> None:
    trial = run(Record(b"", key=b"a"))
    assert responses(trial) == [(b"a", (0, True))]


def test_a_task_finds_what_its_last_attempt_has_saved_until_it_is_answered(tmp_path: Path) -> None:
    about: dict[str, Any] = {"key": b"a", "offset": 4}
    run(request(1, "save-and-raise half", **about))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"half"]
    run(request(1, "save-and-raise half", attempt=2, **about))
    assert [call["saved"] for call in calls] == [None, b"half"]
    run(request(1, "save-and-raise half", attempt=4, **about))
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_goes_once_the_response_is_there(tmp_path: Path) -> None:
    assert run(request(1, "save all")).failures == []
    assert list(tmp_path.iterdir()) == []


def test_another_request_at_the_same_offset_finds_nothing(tmp_path: Path) -> None:
    run(request(1, "save-and-raise half", offset=4))
    run(request(2, "raise other", offset=4))
    assert [call["saved"] for call in calls] == [None, None]
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_folder_every_attempt_begins_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TASK_CHECKPOINTS", "")
    for attempt in (1, 2):
        run(request(1, "save-and-raise half", attempt=attempt))
    assert [call["saved"] for call in calls] == [None, None]
    assert list(tmp_path.iterdir()) == []


def test_a_task_learns_that_its_partition_leaves_until_it_has_saved() -> None:
    seen: list[bool] = []

    def begin(context: Any) -> None:
        init_context(context)

        def task(_: Request, progress: Progress, **__: Any) -> None:
            context.platform.drain_callback()
            seen.append(progress.should_save)
            progress.save(b"half")
            seen.append(progress.should_save)
            context.platform.termination_callback()
            seen.append(progress.should_save)

        context.user_data.settings = replace(context.user_data.settings, task=task)

    trial = run_handler(handler, [request(1)], init_context=begin)
    assert (trial.failures, seen) == ([], [True, False, True])
    trial.context.platform.drain_callback()  # nothing runs: nobody is asked
