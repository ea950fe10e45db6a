"""A broker that ends each sign-in after a while: that is no outage, and no line. A real broker."""

import time
from pathlib import Path

import pytest
from broker import Broker, embedded
from kafka_records import group_offsets, produce
from replica import replica, wait_until, write_function

from headrace.runtime.embedded.kafka.security import BrokerSecurity

LIFETIME_SECONDS = 2


class ShortGuards(BrokerSecurity):
    """Sign-ins end soon."""

    def settings(self) -> dict[str, str]:
        return super().settings() | {"connections.max.reauth.ms": str(1000 * LIFETIME_SECONDS)}


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_sign_in_that_ends_by_itself_is_no_warning(tmp_path: Path, protocol: str) -> None:
    with embedded(ShortGuards(users={"ada": "secret"}), records=1) as kafka:
        broker = Broker(kafka.bootstrap, "embedded")
        folder = write_function(
            tmp_path / "f",
            "def handler(context, event):\n    pass\n",
            kafka.sasl_bootstrap,
            ["records"],
            sasl={"enable": True, "mechanism": "PLAIN", "user": "ada", "password": "secret"},
            groupProtocol=protocol,
            consumerGroup="ends",
        )
        with replica(folder) as running:
            running.wait_ready()
            commit(broker, 1)
            before = len(running.log)  # a new broker says of its first group that it has no coordinator yet
            until, count = time.monotonic() + 4 * LIFETIME_SECONDS, 1
            while time.monotonic() < until:
                count += 1
                commit(broker, count)
            said = running.log[before:]
        assert not [line for line in said.splitlines() if "WARNING" in line or "ERROR" in line]


def commit(broker: Broker, count: int) -> None:
    """The last of so many records."""
    produce(broker, "records", 1, partitions=1)
    wait_until(lambda: group_offsets(broker, "ends") == {("records", 0): count}, 30)
