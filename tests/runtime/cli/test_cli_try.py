"""`headrace try`: a record from a file, a dead letter, and one of a broker, through a handler."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker
from command import one_line, run
from forked import PROGRAM
from replica import set_spec, set_trigger, write_function

ECHO = """
    def init_context(context):
        context.user_data.greeting = os.environ["GREETING"]

    def handler(context, event):
        key = (event.key or b"").decode()
        context.logger.info_with(f"{context.user_data.greeting}, {event.body.decode()}!", key=key)
        context.produce("greeted", event.body, key=event.key, headers={"raw": b"\\xff"})
        if event.body == b"bad":
            raise ValueError("no such customer")
        print("printed")
        return [event.topic, event.shard_id, event.offset]
"""
RECORD = {
    "topic": "orders",
    "partition": 3,
    "offset": 17,
    "timestamp": 5,
    "key": "k",
    "value": "Ada",
    "headers": [],
}


@pytest.fixture
def function(tmp_path: Path) -> Path:
    """Its brokers are nowhere: none is asked."""
    folder = write_function(tmp_path / "f", ECHO, "127.0.0.1:1", ["orders"])
    return set_spec(folder, env=[{"name": "GREETING", "value": "Hello"}])


def record(folder: Path, **changes: Any) -> str:
    path = folder / "record.json"
    path.write_text(json.dumps(RECORD | changes))
    return str(path)


def test_a_record_from_a_file_is_handled_and_what_comes_of_it_shown(function: Path) -> None:
    done = run("try", str(function), "--record", record(function))
    assert done.returncode == 0, done.stderr
    log, printed, outcome, returned, produced = done.stdout.splitlines()
    assert log.split(maxsplit=1) == ["info", "Hello, Ada!  key='k'"]
    assert printed == "printed"
    assert outcome.startswith("orders/3/17: ok after ")
    assert outcome.endswith(" ms, acked")
    assert returned == "returned ['orders', 3, 17]"
    assert produced == "would produce to greeted: k Ada"


def test_a_handler_that_raises_is_shown_with_its_traceback(function: Path) -> None:
    done = run("try", str(function), "--record", record(function, value="bad"))
    assert done.returncode == 5
    assert ": failed after " in done.stdout
    assert "not acked" in done.stdout
    assert "    ValueError: no such customer" in done.stdout.splitlines()
    assert "function_code.py" in done.stdout
    assert "headrace/runtime" not in done.stdout


def test_for_programs_all_is_one_object(function: Path) -> None:
    told = json.loads(run("try", str(function), "--record", record(function), "--json").stdout)
    assert (told["failure"], told["acked"], told["offset"]) == (None, True, 17)
    assert told["seconds"] > 0
    (message,) = told["produced"]
    assert (message["key"], message["value"], message["headers"]) == (
        "k",
        "Ada",
        [["raw", {"base64": "/w=="}]],
    )
    (line,) = told["logs"]
    assert (line["level"], line["message"], line["values"]) == ("info", "Hello, Ada!", {"key": "k"})


def test_a_dead_letter_is_tried_as_the_record_that_it_was(function: Path) -> None:
    letter: dict[str, Any] = {
        "partition": 0,
        "offset": 2,
        "timestamp": 9,
        "key": None,
        "body": "Ada",
        "headers": [],
    }
    letter["provenance"] = {"topic": "orders", "partition": 5, "offset": 41}
    path = function / "letter.json"
    path.write_text(json.dumps(letter))
    assert "orders/5/41: ok" in run("try", str(function), "--record", str(path)).stdout


def test_a_record_of_the_broker_is_tried_and_nothing_is_committed_or_sent(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", ECHO, broker.bootstrap, [topic])
    set_spec(folder, env=[{"name": "GREETING", "value": "Hello"}])
    line = json.dumps({"value": "Ada", "partition": 2, "key": "k"})
    sent = ("kafka", "produce", "--brokers", broker.bootstrap, "--topic", topic, "--json")

    subprocess.run([*PROGRAM, *sent], input=line, text=True, check=True, capture_output=True)
    done = run("try", str(folder), "--from", f"{topic}/2/0")
    assert done.returncode == 0, done.stderr
    assert f"{topic}/2/0: ok" in done.stdout
    assert "Hello, Ada!" in done.stdout
    assert "greeted" not in run("kafka", "topics", "--brokers", broker.bootstrap).stdout
    assert f"group-{topic}" not in run("kafka", "groups", "--brokers", broker.bootstrap).stdout
    nothing = one_line(run("try", str(folder), "--from", f"{topic}/2/1"), 2)
    assert nothing == f"headrace: {topic}/2 has no record at offset 1: its last is before 1"
    assert "not 7" in one_line(run("try", str(folder), "--from", f"{topic}/2/7"), 2)
    assert "not 9" in one_line(run("try", str(folder), "--from", f"{topic}/9/0"), 2)


def test_a_batch_handler_gets_a_batch_of_one(function: Path) -> None:
    set_trigger(function, batch={"mode": "enable", "batchSize": 10, "timeout": "1s"})
    (function / "function_code.py").write_text("def handler(context, events):\n    print(len(events))\n")
    assert run("try", str(function), "--record", record(function)).stdout.startswith("1\n")


def test_an_explicit_ack_that_never_comes_is_said(function: Path) -> None:
    set_trigger(function, explicitAckMode="explicitOnly")
    static = "triggers.records.attributes.workerAllocationMode=static"
    done = run("try", str(function), "--record", record(function), "--set", static)
    assert "not acked" in done.stdout
    assert done.returncode == 0


def test_each_mistake_is_one_line(function: Path, tmp_path: Path) -> None:
    a_record = record(function)
    assert "say which record" in one_line(run("try", str(function)), 2)
    assert "is not TOPIC/PARTITION/OFFSET" in run("try", str(function), "--from", "orders/3").stderr
    (tmp_path / "two").write_text(f"{json.dumps(RECORD)}\n{json.dumps(RECORD)}\n")
    two = one_line(run("try", str(function), "--record", str(tmp_path / "two")), 2)
    assert two.endswith("doesn't hold one record as `headrace kafka consume --json` prints it")
    assert "can't be read: No such file" in one_line(run("try", str(function), "--record", "nowhere"), 2)
    chosen = one_line(run("try", str(function), "--record", a_record, "--trigger", "x"), 2)
    assert chosen == "headrace: --trigger 'x': those that read records are records"
    (function / "function_code.py").write_text("import nothing_such\n\ndef handler(context, event): ...\n")
    assert "nothing_such" in one_line(run("try", str(function), "--record", a_record), 2)


def test_a_function_without_a_stream_is_told_of_invoke(tmp_path: Path) -> None:
    (tmp_path / "nothing_else.py").write_text("def handler(context, event): ...\n")
    spec = {"handler": "nothing_else:handler", "runtime": "python"}
    (tmp_path / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": "f"}, "spec": spec}))
    line = one_line(run("try", str(tmp_path), "--record", record(tmp_path)), 2)
    assert "no trigger reads records; `headrace invoke`" in line


@pytest.mark.full
@pytest.mark.spark
def test_a_function_with_spark_has_a_server_for_its_record(function: Path) -> None:
    set_spec(function, spark={"conf": {"spark.driver.memory": "700m"}})
    (function / "function_code.py").write_text(
        "def handler(context, event):\n    return context.spark.range(7).count()\n"
    )
    assert "returned 7" in run("try", str(function), "--record", record(function)).stdout
