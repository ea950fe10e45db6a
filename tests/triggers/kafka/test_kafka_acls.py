"""What a broker's rules forbid: said in one line each, and nothing is lost."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acls import Kind, May, Rules
from click.testing import CliRunner
from dead_letters import Record, dead_letters
from kafka_records import produce
from refusal import refused
from replica import Replica, lines, replica, wait_until, write_function

from headrace.runtime.cli.main import headrace
from headrace.runtime.errors import BrokerError

WRITES = """
    def handler(context, event):
        if event.offset == 2 and not exists("good"):
            raise ValueError("bad")
        write(event.offset)
"""


def function(folder: Path, rules: Rules, **attributes: Any) -> Path:
    where = rules.kafka.sasl_bootstrap
    (folder / "f").mkdir()
    (folder / "f" / "good").touch()
    return write_function(folder / "f", WRITES, where, [rules.topic], sasl=rules.sasl, **attributes)


def send(rules: Rules, count: int) -> None:
    produce(rules.plain, rules.topic, count, partitions=1)


def all_handled(folder: Path, count: int) -> None:
    with replica(folder, name="-again") as running:
        wait_until(lambda: set(lines(folder)) >= set(map(str, range(count))), about=running)
        wait_until(lambda: set(running.committed().values()) == {count}, about=running)
        assert running.stop() == 0


def refused_once(running: Replica, line: str) -> None:
    assert running.process.wait(300) == 3
    assert running.log.count(line) == 1
    assert "Traceback" not in running.log


def test_what_a_function_may_not_read_is_said_with_a_line_each(rules: Rules, tmp_path: Path) -> None:
    folder = function(tmp_path, rules)
    send(rules, 4)
    with replica(folder) as running:
        running.logged(f"no such topic: {rules.topic} (")
        assert "or this user may not see it" in running.log
        rules.allow(Kind.TOPIC, rules.topic, May.READ)
        refused_once(running, f"does not let this user join group {rules.group}")
    rules.allow(Kind.GROUP, rules.group, May.READ)
    all_handled(folder, 4)


@pytest.mark.full_but("2*")
@pytest.mark.parametrize(("kind", "line"), [(Kind.TOPIC, "read "), (Kind.GROUP, "join group group-")])
def test_a_right_that_is_taken_away_is_said_and_nothing_is_lost(
    kind: Kind, line: str, rules: Rules, tmp_path: Path
) -> None:
    name = rules.topic if kind is Kind.TOPIC else rules.group
    rules.allow(Kind.TOPIC, rules.topic, May.READ)
    rules.allow(Kind.GROUP, rules.group, May.READ)
    folder = function(tmp_path, rules)
    send(rules, 4)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 4, about=running)
        rules.forbid(kind, name, May.READ)
        send(rules, 4)
        refused_once(running, f"does not let this user {line}{rules.topic}")
    rules.allow(kind, name, May.READ)
    all_handled(folder, 8)


@pytest.mark.full
def test_a_dead_letter_that_may_not_be_written_holds_its_partition_until_it_may(
    rules: Rules, tmp_path: Path
) -> None:
    rules.allow(Kind.TOPIC, rules.topic, May.READ)
    rules.allow(Kind.GROUP, rules.group, May.READ)
    policy = {"maxAttempts": 1, "then": "deadLetter", "deadLetterTopic": rules.dead}
    folder = function(tmp_path, rules, onFailure=policy)
    (folder / "good").unlink()
    send(rules, 4)
    with replica(folder) as running:
        running.logged(f"does not let this user write to dead-letter topic {rules.dead}")
        assert lines(folder) == ["0", "1"]
        rules.allow(Kind.TOPIC, rules.dead, May.WRITE)
        wait_until(lambda: lines(folder) == ["0", "1", "3"], about=running)
        wait_until(lambda: set(running.committed().values()) == {4}, about=running)
        assert running.stop() == 0


@pytest.mark.parametrize("exactly_once", [False, True])
def test_results_that_may_not_be_written_hold_their_records_until_they_may(
    rules: Rules, tmp_path: Path, *, exactly_once: bool
) -> None:
    if not exactly_once:  # there it is noticed only of who may write nowhere
        rules = replace(rules, user="dora")
    rules.allow(Kind.TOPIC, rules.topic, May.READ)
    rules.allow(Kind.GROUP, rules.group, May.READ)
    rules.allow(Kind.TRANSACTIONAL_ID, f"{rules.group}-headrace/{rules.topic}/0", May.WRITE)
    folder = function(
        tmp_path,
        rules,
        resultTopic=rules.dead,
        exactlyOnce=exactly_once,
        onFailure={"maxAttempts": 1, "then": "skip"},
    )
    (folder / "function_code.py").write_text("def handler(context, event):\n    return event.body\n")
    send(rules, 4)
    with replica(folder) as running:
        # Who may write nowhere may not begin to write without transactions, either.
        where = f"topic {rules.dead}" if exactly_once else "any topic"
        running.logged(f"does not let this user write to {where}", seconds=60)
        line = f"does not let this user write to topic {rules.dead}"
        wait_until(
            lambda: running.get("/ready")[0] == 503 and line in running.get("/ready")[1], about=running
        )
        assert set(running.committed().values()) <= {0, None}
        rules.allow(Kind.TOPIC, rules.dead, May.WRITE)
        wait_until(lambda: set(running.committed().values()) == {4}, about=running)
        assert running.stop() == 0
        assert "failed at attempt" not in running.log
        assert running.log.count(line) <= 2  # by itself, and as why a commit isn't made


def test_transactions_that_may_not_be_written_end_the_run_with_a_line(rules: Rules, tmp_path: Path) -> None:
    rules.allow(Kind.TOPIC, rules.topic, May.READ)
    rules.allow(Kind.GROUP, rules.group, May.READ)
    with replica(function(tmp_path, rules, exactlyOnce=True)) as running:
        refused_once(running, "lets this user write no transactions: exactlyOnce needs the right to write")


@pytest.mark.parametrize(
    "command",
    [
        ("kafka", "topics", "--create", "new-TOPIC:1"),
        ("kafka", "topics", "--delete", "TOPIC"),
        ("kafka", "produce", "--topic", "TOPIC", "--count", "1"),
        ("kafka", "consume", "--topic", "TOPIC", "--count", "1"),
        ("kafka", "seek", "group-TOPIC", "TOPIC", "--to", "earliest"),
        ("deadletters", "list", "dead-TOPIC"),
    ],
)
def test_what_a_command_may_not_do_is_one_line(command: tuple[str, ...], rules: Rules) -> None:
    access = ("--brokers", rules.kafka.sasl_bootstrap, "--user", rules.user, "--sasl-mechanism", "PLAIN")
    words = [word.replace("TOPIC", rules.topic) for word in command]
    told = CliRunner().invoke(headrace, [*words, *access], env={"HEADRACE_PASSWORD": rules.password})
    assert "\n" not in refused(told, BrokerError)


def test_who_may_not_read_what_a_topic_is_set_to_is_told_so_by_a_replay_that_keeps_times(
    rules: Rules,
) -> None:
    async def fail() -> None:
        async with dead_letters(rules.kafka.bootstrap, rules.dead) as letters:
            await letters.write(Record(), rules.topic, 0, "it broke", 4)

    asyncio.run(fail())
    for name, may in ((rules.dead, May.READ), (rules.topic, May.WRITE)):
        rules.allow(Kind.TOPIC, name, may)
    access = ("--brokers", rules.kafka.sasl_bootstrap, "--user", rules.user, "--sasl-mechanism", "PLAIN")
    replay = ["deadletters", "replay", rules.dead, "0/0", "--source", rules.topic, *access]
    environment = {"HEADRACE_PASSWORD": rules.password}
    told = CliRunner().invoke(headrace, [*replay, "--keep-timestamps"], env=environment)
    assert f"does not let this user read the settings of {rules.topic}" in refused(told, BrokerError)
    assert CliRunner().invoke(headrace, replay, env=environment).exit_code == 0
