"""The embedded broker's properties: computed here, written as Java reads them."""

import json
from collections.abc import Mapping
from pathlib import Path

from headrace.runtime.embedded.kafka.security import PROTOCOLS, BrokerSecurity
from headrace.runtime.embedded.ports import HOST

_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


def broker_settings(ports: Mapping[str, int], security: BrokerSecurity) -> dict[str, str]:
    """Return the broker's properties. Paths are relative to its folder, which may be moved."""
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(it for name, it in listeners.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": ",".join(f"{name}:{PROTOCOLS[name]}" for name in ports),
        "log.dirs": "records",
        "auto.create.topics.enable": "false",
        # Kafka would wait 3 s for more members of a new group, and takes no session below 6 s.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # With the protocol `consumer` the broker decides, and not each member: as Headrace's defaults.
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "200",
        # Since Kafka 4.3 it would share out anew once a second at most.
        "group.consumer.assignment.interval.ms": "0",
        "log.retention.check.interval.ms": "10000",  # a small disk is soon full
        # Kafka's 128 MiB would be a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": "4194304",
        "broker.session.timeout.ms": "2000",  # a killed broker may register again only after it
        "broker.heartbeat.interval.ms": "500",
        # There is one node, and Kafka's defaults ask for two that are in sync.
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    # Kafka's 3 replicas can't be had from one node, and its 50 partitions are for many.
    for topic in _INTERNAL_TOPICS:
        settings |= {f"{topic}.replication.factor": "1", f"{topic}.num.partitions": "4"}
    return settings | security.settings()


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write properties in Java's format, whose escapes are JSON's. Only the owner may read the file."""
    lines = [f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items()]
    # Before the content, which others must not read even for a moment.
    path.touch(mode=0o600)
    path.write_text("".join(lines))
