"""`headrace kafka consume --json | headrace kafka produce --json`, and where a consume begins."""

import json
from typing import Any

import pytest
from broker import Broker
from click.testing import CliRunner, Result
from refusal import refused

from headrace.runtime.cli.kafka.commands import kafka
from headrace.runtime.errors import UsageError

RECORDS: list[dict[str, Any]] = [
    {"partition": 3, "timestamp": 1_700_000_000_000, "key": "k", "value": "thrée\n", "headers": [["h", "1"]]},
    {"partition": 3, "timestamp": 1_700_000_000_001, "key": None, "value": {"base64": "//4="}, "headers": []},
    {
        "partition": 0,
        "timestamp": 5,
        "key": {"base64": "gA=="},
        "value": None,
        "headers": [["h", None], ["h", ""]],
    },
    {"partition": 7, "timestamp": 6, "key": "", "value": "", "headers": []},
]


def run(broker: Broker, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(kafka, arguments, input=stdin, env={"HEADRACE_BROKERS": broker.bootstrap})


def produce(broker: Broker, topic: str, text: str, *more: str) -> Result:
    return run(broker, "produce", "--topic", topic, "--json", *more, stdin=text)


def consume(broker: Broker, topic: str, count: int, *more: str) -> str:
    result = run(broker, "consume", "--topic", topic, "--count", str(count), "--json", *more)
    assert result.exit_code == 0, result.exception
    return result.stdout


def without_place(text: str) -> list[dict[str, Any]]:
    """All but the topic, in the order of partitions."""
    records = [json.loads(line) for line in text.splitlines()]
    return sorted(
        ({name: it[name] for name in it if name != "topic"} for it in records),
        key=lambda it: (it["partition"], it["offset"]),
    )


def test_records_come_back_as_they_were(broker: Broker, topic: str) -> None:
    other = f"{topic}-other"
    run(broker, "topics", "--create", f"{other}:8")
    sent = produce(broker, topic, "".join(json.dumps(it) + "\n" for it in RECORDS))
    assert json.loads(sent.stdout)["records"] == len(RECORDS)
    first = consume(broker, topic, len(RECORDS))
    assert json.loads(produce(broker, other, first).stdout)["records"] == len(RECORDS)
    again = without_place(consume(broker, other, len(RECORDS)))
    assert again == without_place(first)
    expected = sorted(RECORDS, key=lambda it: it["partition"])
    assert [{name: it[name] for name in RECORDS[0]} for it in again] == expected


def test_one_partition_takes_them_all_if_asked(broker: Broker, topic: str) -> None:
    produce(broker, topic, "".join(json.dumps(it) + "\n" for it in RECORDS), "--partition", "2")
    places = [json.loads(line) for line in consume(broker, topic, 4, "--partition", "2").splitlines()]
    assert [(it["partition"], it["offset"]) for it in places] == [(2, 0), (2, 1), (2, 2), (2, 3)]


@pytest.mark.parametrize(
    "line",
    ["no json", "[]", "{}", '{"value": 1}', '{"value": {"base64": "?"}}', '{"value": "x", "partition": -1}',
     '{"value": "x", "headers": [1]}', '{"value": "x", "timestamp": "now"}'],
)  # fmt: skip
def test_a_line_that_is_no_record_is_named(broker: Broker, topic: str, line: str) -> None:
    said = refused(produce(broker, topic, '{"value": "x"}\n' + line), UsageError)
    assert said == "line 2 of stdin is no record as `headrace kafka consume --json` prints it"


def test_a_partition_that_the_topic_has_not_is_refused(broker: Broker, topic: str) -> None:
    said = refused(produce(broker, topic, '{"value": "x", "partition": 9}'), UsageError)
    assert said == f"topic {topic} has partitions 0 to 7: not 9"


def test_a_consume_begins_at_an_offset(broker: Broker, topic: str) -> None:
    run(broker, "produce", "--topic", topic, "--partition", "1", stdin="a\nb\nc\n")
    shown = run(broker, "consume", "--topic", topic, "--partition", "1", "--offset", "1", "--count", "2")
    assert shown.stdout == "1/1\t-\tb\n1/2\t-\tc\n"
    at_end = run(broker, "consume", "--topic", topic, "--partition", "1", "--offset", "4", "--count", "1")
    assert refused(at_end, UsageError) == f"{topic}/1 has offsets 0 to 2: not 4"
    of_none = run(broker, "consume", "--topic", topic, "--offset", "4")
    assert refused(of_none, UsageError) == "--offset is one of a partition: say which with --partition"
    elsewhere = run(broker, "consume", "--topic", topic, "--partition", "8")
    assert refused(elsewhere, UsageError) == f"topic {topic} has partitions 0 to 7: not 8"
