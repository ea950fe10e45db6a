"""What a function is told of commits that expire. Real broker."""

from pathlib import Path

import pytest
from acls import Kind, May, Rules
from broker import Broker
from replica import replica, write_function

NOTHING = "def handler(context, event):\n    pass\n"


@pytest.mark.full_but("earliest")
@pytest.mark.parametrize("initial_offset", ["latest", "earliest"])
def test_that_a_long_stop_skips_records_is_said_once_where_it_does(
    broker: Broker, topic: str, tmp_path: Path, initial_offset: str
) -> None:
    folder = write_function(tmp_path / "f", NOTHING, broker.bootstrap, [topic], initialOffset=initial_offset)
    with replica(folder) as running:
        running.wait_ready()
        assert running.log.count("offsets.retention.minutes (10080)") == (initial_offset == "latest")
        assert running.stop() == 0


@pytest.mark.full
def test_it_is_said_without_the_number_where_that_may_not_be_read(rules: Rules, tmp_path: Path) -> None:
    rules.allow(Kind.TOPIC, rules.topic, May.READ)
    rules.allow(Kind.GROUP, rules.group, May.READ)
    where = rules.kafka.sasl_bootstrap
    folder = write_function(
        tmp_path / "f", NOTHING, where, [rules.topic], sasl=rules.sasl, initialOffset="latest"
    )
    with replica(folder) as running:
        running.wait_ready()
        assert running.log.count("offsets.retention.minutes, its commits") == 1
        assert running.stop() == 0
