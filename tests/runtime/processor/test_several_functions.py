"""Several functions in one `headrace run`: what they share, and what tells them apart."""

import json
from pathlib import Path

import pytest
import yaml
from broker import Broker
from command import one_line, run
from kafka_records import group_offsets, handled, produce
from processes import children_of, java_children
from replica import lines, replica, wait_until, write_function
from spark import COUNTS, QUICK, use_spark

WRITES = """
    def handler(context, event):
        context.logger.info("seen")
        write(f"{event.topic} {event.shard_id} {event.offset}")
"""


def write_named(
    folder: Path, name: str, brokers: str, topic: str, handler: str = WRITES, **attributes: object
) -> Path:
    """A function of this name in a folder of this name, with a group of its own."""
    write_function(
        folder / name, handler, brokers, [topic], workers=1, consumerGroup=f"{name}-{topic}", **attributes
    )
    path = folder / name / "function.yaml"
    function = yaml.safe_load(path.read_text())
    function["metadata"]["name"] = name
    path.write_text(yaml.safe_dump(function))
    return folder / name


def test_two_functions_share_kafka_the_process_and_the_admin_server(tmp_path: Path) -> None:
    orders = write_named(tmp_path, "orders", "127.0.0.1:1", "things")
    audit = write_named(tmp_path, "audit", "127.0.0.1:1", "things")
    with replica(orders, str(audit), "--embedded-kafka") as running:
        running.wait_ready()
        broker = Broker(running.log.split("embedded Kafka at ")[1].split()[0], "embedded")
        produce(broker, "things", 80)
        wait_until(lambda: len(lines(orders)) == len(lines(audit)) == 80, about=running)

        status = running.status()
        assert status["functions"] == ["orders", "audit"]
        assert [trigger["function"] for trigger in running.triggers()] == ["orders", "audit"]
        metrics = running.get("/metrics")[1]
        assert all(f'function="{name}"' in metrics for name in ("orders", "audit"))
        assert len(children_of(running.process.pid)) == 5  # the broker, a worker and a fence each
        assert running.stop() == 0
        for name in ("orders", "audit"):
            told = [line for line in running.log.splitlines() if f"function={name}" in line]
            assert any("handler: seen" in line and "offset=9" in line for line in told)
            assert any("assigned: things/0-7" in line for line in told)
    assert handled(orders) == handled(audit) == {("things", number): list(range(10)) for number in range(8)}


@pytest.mark.full
def test_replicas_have_all_functions_each(broker: Broker, topic: str, tmp_path: Path) -> None:
    folders = [write_named(tmp_path, name, broker.bootstrap, topic) for name in ("orders", "audit")]
    with replica(folders[0], str(folders[1]), "--replicas", "2") as running:
        running.wait_ready()
        wait_until(lambda: [len(t["partitions"]) for t in running.triggers()] == [4] * 4, about=running)
        produce(broker, topic, 80)
        wait_until(lambda: all(len(lines(folder)) == 80 for folder in folders), about=running)
        status = running.status()
        assert status["functions"] == ["orders", "audit"]
        for found in status["replicas"]:
            assert [trigger["function"] for trigger in found["triggers"]] == ["orders", "audit"]
        assert running.stop() == 0
    for name in ("orders", "audit"):
        committed = group_offsets(broker, f"{name}-{topic}")
        assert committed == {(topic, partition): 10 for partition in range(8)}


@pytest.mark.full
def test_what_is_wrong_with_one_function_is_a_problem_of_the_whole(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    fine = write_named(tmp_path, "fine", broker.bootstrap, topic)
    halting = write_named(
        tmp_path,
        "halting",
        broker.bootstrap,
        topic,
        "def handler(context, event): 1 / 0",
        onFailure={"maxAttempts": 1},
    )
    produce(broker, topic, 8)
    with replica(fine, str(halting)) as running:
        wait_until(lambda: "halted" in running.get("/ready")[1], about=running)
        problems = json.loads(running.get("/ready")[1])["problems"]
        assert all(problem.startswith("halting/records: ") for problem in problems)
        wait_until(lambda: len(lines(fine)) == 8, about=running)
        done = run("partition", "skip", f"{topic}/3", "--admin", running.url)
        assert done.returncode == 0, done.stderr
        wait_until(
            lambda: any("function=halting" in line and "skip" in line for line in running.log.splitlines())
        )


def test_a_name_that_two_functions_have_is_one_line(tmp_path: Path) -> None:
    first = write_function(tmp_path / "a", WRITES, "127.0.0.1:1", ["t"])
    second = write_function(tmp_path / "b", WRITES, "127.0.0.1:1", ["t"])
    line = one_line(run("run", str(first), str(second)), code=2)
    assert line == (
        f"headrace: {second}/function.yaml:4: metadata.name: 'f' is the name of {first}/function.yaml too; "
        "functions that run together need different names"
    )


@pytest.mark.full
def test_the_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    paths = [
        write_named(tmp_path, name, "127.0.0.1:1", "t", sessionTimeout="soon") for name in ("one", "two")
    ]
    result = run("run", *map(str, paths))
    assert result.returncode == 2
    assert [path.name in line for path, line in zip(paths, result.stderr.splitlines(), strict=True)] == [
        True
    ] * 2


@pytest.mark.full
def test_what_functions_disagree_on_is_said_before_a_broker_is_started(tmp_path: Path) -> None:
    folders = [write_named(tmp_path, name, "127.0.0.1:1", "t") for name in ("one", "two")]
    for folder, master in zip(folders, ("local[1]", "local[2]"), strict=True):
        path = folder / "function.yaml"
        path.write_text(path.read_text().replace("spec:", f"spec:\n  spark: {{master: '{master}'}}"))
    result = run("run", *map(str, folders), "--embedded-kafka")
    line = one_line(result, code=2)
    assert "embedded Kafka at" not in result.stderr + result.stdout
    assert "spec.spark.master: is local[2], and local[1] for one" in line


@pytest.mark.full
def test_a_disabled_function_is_left_out(broker: Broker, topic: str, tmp_path: Path) -> None:
    folders = [write_named(tmp_path, name, broker.bootstrap, topic) for name in ("on", "off")]
    path = folders[1] / "function.yaml"
    path.write_text(path.read_text().replace("spec:", "spec:\n  disable: true"))
    with replica(folders[0], str(folders[1])) as running:
        running.wait_ready()
        assert running.status()["functions"] == ["on"]


@pytest.mark.full
@pytest.mark.spark
def test_two_functions_share_one_spark_server(broker: Broker, topic: str, tmp_path: Path) -> None:
    folders = [write_named(tmp_path, name, broker.bootstrap, topic, COUNTS) for name in ("one", "two")]
    for folder in folders:
        use_spark(folder, QUICK)
    produce(broker, topic, 8)
    with replica(folders[0], str(folders[1])) as running:
        wait_until(lambda: all(len(lines(folder)) == 8 for folder in folders), about=running)
        assert len(java_children(running.process.pid)) == 1
        assert running.stop() == 0
