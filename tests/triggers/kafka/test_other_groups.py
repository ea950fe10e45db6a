"""A consumerGroup in which nobody is a consumer: one line says so, whatever groupProtocol. Real broker."""

import asyncio
from pathlib import Path

import pytest
from broker import Broker
from other_groups import Join, StreamsJoin, join
from replica import replica, write_function


@pytest.mark.full_but("Join-classic")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("kind", [Join, StreamsJoin])
def test_a_group_of_another_kind_is_refused_with_a_line_that_says_so(
    broker: Broker, topic: str, tmp_path: Path, *, kind: type[Join] | type[StreamsJoin], protocol: str
) -> None:
    name = "a share group" if kind is Join else "a group of Kafka Streams"
    handler = "def handler(context, event):\n    pass\n"
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], groupProtocol=protocol)
    asyncio.run(join(broker.bootstrap, kind, f"group-{topic}", topic))
    with replica(folder) as running:
        assert running.process.wait(60) == 3
        said = f"group group-{topic} is {name}, which has no place for consumers: take another consumerGroup"
        assert running.log.count(said) == 1
        assert "groupProtocol" not in running.log
        assert "Traceback" not in running.log
