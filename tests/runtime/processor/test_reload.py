"""`headrace run --reload`: what is saved is what handles the next record, and nothing is lost for it."""

from pathlib import Path

import pytest
from broker import Broker
from kafka_records import produce
from replica import Replica, lines, replica, wait_until, write_function
from worker_bench import PRELUDE

HANDLER = """
VERSION = {version}

def handler(context, event):
    write(f"{{VERSION}} {{event.shard_id}} {{event.offset}}")
    while VERSION == 1 and exists("hang"):
        time.sleep(0.01)
"""


def save(folder: Path, version: int) -> None:
    (folder / "function_code.py").write_text(PRELUDE + HANDLER.format(version=version))


def handled(folder: Path) -> list[tuple[int, int, int]]:
    """Version, partition and offset of each record."""
    found = (line.split() for line in lines(folder))
    return [(int(version), int(partition), int(offset)) for version, partition, offset in found]


def versions(folder: Path) -> set[int]:
    return {version for version, _, _ in handled(folder)}


def wait_others(running: Replica, pids: set[int]) -> None:
    """Some worker has another process."""
    wait_until(lambda: set(running.worker_pids()) != pids, about=running)


def wait_version(running: Replica, folder: Path, version: int) -> None:
    """It has handled something."""
    wait_until(lambda: version in versions(folder), about=running)


@pytest.mark.full_but("1")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_saved_handler_has_the_next_record_and_none_is_lost_or_repeated(
    broker: Broker, topic: str, tmp_path: Path, workers: int
) -> None:
    folder = write_function(tmp_path / "f", "", broker.bootstrap, [topic], workers=workers)
    save(folder, 1)
    with replica(folder, "--reload") as running:
        running.wait_ready()
        sent = 0
        for version in (1, 2, 3):
            save(folder, version)  # of the same size, and perhaps of the same second
            while version not in versions(folder):
                produce(broker, topic, 8)
                sent += 8
        wait_until(lambda: len(handled(folder)) == sent, about=running)
        assert running.log.count("assigned:") == 1
        assert running.stop() == 0
    found = handled(folder)
    assert len({(partition, offset) for _, partition, offset in found}) == sent


def test_a_record_that_runs_ends_in_the_code_that_it_began_in(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", "", broker.bootstrap, [topic], workers=1)
    save(folder, 1)
    (folder / "hang").touch()
    with replica(folder, "--reload") as running:
        running.wait_ready()
        produce(broker, topic, 20)
        wait_until(lambda: len(handled(folder)) == 1, about=running)
        save(folder, 2)
        running.logged("function_code.py changed: workers are replaced")
        (folder / "hang").unlink()
        wait_until(lambda: len(handled(folder)) == 20, about=running)
    assert [version for version, _, _ in handled(folder)] == [1] + [2] * 19


@pytest.mark.full
def test_a_record_that_hangs_does_not_hide_what_is_saved_next(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", "", broker.bootstrap, [topic], workers=2)
    save(folder, 1)
    (folder / "private").mkdir(mode=0)
    (folder / "hang").touch()
    with replica(folder, "--reload") as running:
        running.wait_ready()
        produce(broker, topic, 1, partitions=1)
        wait_until(lambda: len(handled(folder)) == 1, about=running)
        for version in (2, 3):
            before = set(running.worker_pids())
            save(folder, version)
            wait_others(running, before)
            produce(broker, topic, 8)
            wait_version(running, folder, version)


def test_code_that_does_not_load_is_named_and_waited_for(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", "", broker.bootstrap, [topic], workers=1)
    save(folder, 1)
    with replica(folder, "--reload") as running:
        running.wait_ready()
        produce(broker, topic, 1)
        wait_until(lambda: len(handled(folder)) == 1, about=running)
        (folder / "function_code.py").write_text("def handler(context, event)\n")
        wait_until(lambda: "SyntaxError" in running.log, about=running)
        produce(broker, topic, 1)
        save(folder, 2)
        wait_until(lambda: len(handled(folder)) == 2, about=running)
        (folder / "function.yaml").touch()
        running.logged("it is read at the start; run it again for that")
        assert_no_failure(running)
    assert [version for version, _, _ in handled(folder)] == [1, 2]


def assert_no_failure(running: Replica) -> None:
    assert "failed at attempt" not in running.log
    assert running.trigger()["partitions"]
