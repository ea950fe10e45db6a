"""A kind that nobody here knows, under `headrace run`: found by its entry point alone."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from forked import PROGRAM
from kinds import Lines, third_party, write_function
from replica import wait_until

NAMES = ("a", "b", "c", "d")


class Folder(Lines):
    """Four partitions."""

    def fill(self, count: int) -> None:
        self._folder.mkdir()
        for name in NAMES:
            (self._folder / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(count)))

    def offsets(self) -> list[int]:
        files = (self._folder / f"{name}.offset" for name in NAMES)
        return [int(file.read_text().split()[0]) if file.exists() else 0 for file in files]


@contextmanager
def headrace_run(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with third_party(folder) as path, (folder / "replica.txt").open("ab") as output:
        environment = os.environ | {"PYTHONPATH": path}
        command = [*PROGRAM, "run", str(folder), "--admin-port", "0"]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            yield process
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, (folder / "replica.txt").read_text()
        finally:
            process.kill()
            process.wait()


def handled(folder: Path) -> dict[str, list[int]]:
    """By file, in order of their beginning."""
    path = folder / "log"
    seen: dict[str, list[int]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        name, offset, _ = line.split()
        seen.setdefault(name, []).append(int(offset))
    return seen


WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.offset} {context.worker_id}")
        assert event.body.decode() == f"{event.topic} {event.offset}"
"""


@pytest.mark.full_but("pool")
@pytest.mark.parametrize("mode", ["pool", "static"])
def test_it_runs_with_both_allocations(tmp_path: Path, mode: str) -> None:
    source = Folder(tmp_path)
    source.fill(50)
    write_function(tmp_path, source, WRITES, numWorkers=2, attributes={"workerAllocationMode": mode})
    with headrace_run(tmp_path):
        wait_until(lambda: sum(map(len, handled(tmp_path).values())) == 200)
    assert handled(tmp_path) == {name: list(range(50)) for name in NAMES}
    assert source.offsets() == [50] * 4
    if mode == "static":
        workers = {tuple(line.split()[::2]) for line in (tmp_path / "log").read_text().splitlines()}
        assert workers == {("a", "0"), ("b", "0"), ("c", "1"), ("d", "1")}


def test_explicit_acks_count_and_survive_a_restart(tmp_path: Path) -> None:
    handler = """
        import nuclio_sdk
        async def handler(context, event):
            write(f"{event.topic} {event.offset} {event.attempt}")
            if event.offset != 4:
                await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
    """
    source = Folder(tmp_path)
    source.fill(10)
    mode = {"workerAllocationMode": "static"}
    write_function(tmp_path, source, handler, explicitAckMode="explicitOnly", attributes=mode)
    with headrace_run(tmp_path):
        wait_until(lambda: handled(tmp_path) == {name: list(range(10)) for name in NAMES})
    assert source.offsets() == [4] * 4
    (tmp_path / "log").unlink()
    with headrace_run(tmp_path):
        wait_until(lambda: handled(tmp_path) == {name: [4] for name in NAMES})


def test_what_fails_is_tried_again_then_skipped(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.offset} {event.attempt}")
            if event.offset == 2:
                raise ValueError("no")
    """
    source = Folder(tmp_path)
    source.fill(5)
    failure = {"onFailure": {"maxAttempts": 3, "backoff": "0s", "then": "skip"}}
    write_function(tmp_path, source, handler, attributes=failure)
    with headrace_run(tmp_path):
        wait_until(lambda: handled(tmp_path) == {name: [0, 1, 2, 2, 2, 3, 4] for name in NAMES})
    assert source.offsets() == [5] * 4


@pytest.mark.full
def test_a_replica_that_is_killed_costs_what_it_was_in(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.offset} 0")
            if event.offset == 20:
                wait_for("go")
    """
    source = Folder(tmp_path)
    source.fill(30)
    write_function(tmp_path, source, handler, numWorkers=4)
    with headrace_run(tmp_path) as process:
        wait_until(lambda: source.offsets() == [20] * 4)
        wait_until(lambda: all(offsets[-1] == 20 for offsets in handled(tmp_path).values()))
        process.kill()
        process.wait()
    (tmp_path / "go").touch()
    with headrace_run(tmp_path):
        wait_until(lambda: source.offsets() == [30] * 4)
    assert handled(tmp_path) == {name: [*range(21), *range(20, 30)] for name in NAMES}


@pytest.mark.full_but("it.LINES = it.LinesTrigger-has to name a TriggerKind, and lines_trigger:LINES is none")
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("it.LinesTrigger.embedded = it.LinesTrigger.status = None", "LinesTrigger has no embedded, status"),
        (
            "del it.LinesTrigger",
            "'lines_trigger:LinesTrigger' can't be imported: module 'lines_trigger' has no",
        ),
        ("it.LINES = it.LinesTrigger", "has to name a TriggerKind, and lines_trigger:LINES is none"),
    ],
)
def test_a_kind_that_breaks_the_contract_is_one_line(tmp_path: Path, broken: str, said: str) -> None:
    source = Folder(tmp_path)
    source.fill(1)
    write_function(tmp_path, source, WRITES)
    with third_party(tmp_path) as path:
        (tmp_path / "sitecustomize.py").write_text(f"import lines_trigger as it\n{broken}\n")
        environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{path}"}
        command = [*PROGRAM, "run", str(tmp_path), "--admin-port", "0"]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert shown.returncode != 0
    assert "Traceback" not in shown.stderr
    assert "trigger kind lines: " in shown.stderr
    assert said in shown.stderr
