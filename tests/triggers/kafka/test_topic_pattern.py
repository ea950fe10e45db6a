"""Topics by topicPattern: those that are there, those that come, those that go; on a real broker."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker
from kafka_records import group_offsets, handled, produce
from kafka_settings import loaded, problems_with
from replica import Replica, lines, replica, wait_until, write_function

WRITES = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset} {event.body.decode()}")
"""
SOON: dict[str, Any] = {"topicRefresh": "200ms", "pollInterval": "300ms"}


def function(folder: Path, broker: Broker, prefix: str, **attributes: Any) -> Path:
    """Reads PREFIX.NAME.outputs."""
    pattern = {"topicPattern": rf"{prefix}\..*\.outputs", "consumerGroup": f"group-{prefix}", **SOON}
    write_function(folder, WRITES, broker.bootstrap, ["none"], **pattern | attributes)
    document = yaml.safe_load((folder / "function.yaml").read_text())
    del document["spec"]["triggers"]["records"]["attributes"]["topics"]
    (folder / "function.yaml").write_text(yaml.safe_dump(document))
    return folder


def subscribed(running: Replica) -> list[str]:
    topics: list[str] = running.trigger()["topics"]
    return topics


def test_topics_that_match_are_read_and_others_are_not(broker: Broker, topic: str, tmp_path: Path) -> None:
    matching = [f"{topic}.{name}.outputs" for name in "ab"]
    others = [f"{topic}.a.inputs", f"x{topic}.a.outputs", f"{topic}xa.outputs", f"{topic}.a.outputs.x"]
    for name in (*matching, *others):
        broker.create(name, 2)
        produce(broker, name, 20, partitions=2)
    folder = function(tmp_path / "f", broker, topic)
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: len(lines(folder)) >= 40, about=running)
        assert subscribed(running) == matching
        assert running.stop() == 0
    assert handled(folder) == {(name, number): list(range(10)) for name in matching for number in range(2)}


@pytest.mark.full
def test_topics_that_appear_within_one_interval_are_one_rebalance(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    first, *new = (f"{topic}.{name}.outputs" for name in "abcd")
    broker.create(first, 2)
    produce(broker, first, 20, partitions=2)
    folder = function(tmp_path / "f", broker, topic, pollInterval="5s", initialOffset="latest")
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: set(running.committed().values()) != set(), about=running)
        before = running.trigger()["generation"]
        for name in new:
            broker.create(name, 2)
            produce(broker, name, 20, partitions=2)
        wait_until(lambda: len(running.trigger()["partitions"]) == 8, about=running)
        wait_until(lambda: len(lines(folder)) >= 60, about=running)
        assert running.trigger()["generation"] - before <= 2  # where an interval ended amid their making
        assert running.stop() == 0
    found = handled(folder)
    assert {key: found[key] for key in found if key[0] != first} == {
        (name, number): list(range(10)) for name in new for number in range(2)
    }


def test_a_topic_that_goes_is_dropped_and_the_others_go_on(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    kept, gone = (f"{topic}.{name}.outputs" for name in "ab")
    for name in (kept, gone):
        broker.create(name, 2)
    folder = function(tmp_path / "f", broker, topic)
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: len(running.trigger()["partitions"]) == 4, about=running)
        broker.delete(gone)
        wait_until(lambda: subscribed(running) == [kept], about=running)
        produce(broker, kept, 20, partitions=2)
        wait_until(lambda: len(lines(folder)) == 20, about=running)
        broker.create(gone, 2)
        produce(broker, gone, 20, partitions=2)
        wait_until(lambda: len(lines(folder)) == 40, about=running)
        assert running.stop() == 0
    assert set(group_offsets(broker, f"group-{topic}").values()) == {10}


@pytest.mark.full
def test_it_waits_for_the_first_topic_that_matches(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = function(tmp_path / "f", broker, topic)
    with replica(folder) as running:
        running.logged(rf"no topic matches {topic}\..*\.outputs yet")
        assert "waiting for topics that match" in running.get("/ready")[1]
        broker.create(f"{topic}.a.outputs", 2)
        produce(broker, f"{topic}.a.outputs", 20, partitions=2)
        wait_until(lambda: len(lines(folder)) == 20, about=running)


@pytest.mark.full
def test_named_topics_are_read_beside_those_that_match(broker: Broker, topic: str, tmp_path: Path) -> None:
    names = [topic, f"{topic}.a.outputs"]
    broker.create(names[1], 8)
    folder = write_function(
        tmp_path / "f", WRITES, broker.bootstrap, [topic], topicPattern=rf"{topic}\..*", **SOON
    )
    with replica(folder) as running:
        running.wait_ready()
        wait_until(lambda: subscribed(running) == names, about=running)
        for name in names:
            produce(broker, name, 8)
        wait_until(lambda: len(lines(folder)) == 16, about=running)


@pytest.mark.full
def test_replicas_that_see_a_new_topic_at_different_times_lose_nothing(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    first, new = (f"{topic}.{name}.outputs" for name in "ab")
    broker.create(first, 4)
    early = function(tmp_path / "early", broker, topic)
    late = function(tmp_path / "late", broker, topic, topicRefresh="8s")
    with replica(early) as one, replica(late) as two:
        wait_until(
            lambda: len(one.trigger()["partitions"]) == len(two.trigger()["partitions"]) == 2, about=one
        )
        broker.create(new, 4)
        produce(broker, new, 40, partitions=4)
        produce(broker, first, 40, partitions=4)
        wait_until(lambda: subscribed(one) == [first, new], about=one)
        wait_until(lambda: subscribed(two) == [first, new], about=two)
        produce(broker, new, 40, partitions=4)
        wait_until(
            lambda: sorted(group_offsets(broker, f"group-{topic}").values()) == 4 * [10] + 4 * [20], about=one
        )
        assert one.stop() == two.stop() == 0
    bodies = {(topic, number, offset) for topic, number, offset in places(early) | places(late)}
    assert len(bodies) == 120


def places(folder: Path) -> set[tuple[str, int, int]]:
    return {(key[0], key[1], offset) for key, offsets in handled(folder).items() for offset in offsets}


# ---- what a file may say


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"topics": []}, "topics: is required: a list of at least one topic, or topicPattern"),
        ({"topicPattern": "a("}, "topicPattern: is no regular expression: missing ), unterminated"),
        ({"topicPattern": "a(", "resultTopic": "results"}, "is no regular expression"),
        (
            {"topicPattern": "a(", "onFailure": {"then": "deadLetter", "deadLetterTopic": "dead"}},
            "is no regular expression",
        ),
        ({"topicPattern": "r.*", "resultTopic": "results"}, "it would feed itself"),
        (
            {"topicPattern": ".*", "onFailure": {"then": "deadLetter", "deadLetterTopic": "dead"}},
            "deadLetterTopic: 'dead' is one of the trigger's own topics",
        ),
        ({"topicPattern": "a", "pollInterval": "0s"}, "pollInterval"),
    ],
)
def test_mistakes_are_refused(tmp_path: Path, attributes: dict[str, Any], said: str) -> None:
    assert said in problems_with(tmp_path, attributes)


def test_a_variable_in_a_pattern_stands_for_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFIX", "acme.prod")
    inside = loaded(tmp_path, {"topics": [], "topicPattern": r"${PREFIX}\.(${KIND:-a.b|c})"})
    assert inside.matches("acme.prod.a.b|c")
    assert not inside.matches("acme-prod.a.b|c")
    first = loaded(tmp_path, {"topics": [], "topicPattern": r"${PREFIX:-x}\.[a-z]+"})
    assert first.matches("acme.prod.a")
    assert not first.matches("acme-prod.a")
    assert loaded(tmp_path, {"topicPattern": "${PREFIX}"}).matches("acme-prod")
