"""The embedded broker's properties: computed here, written as Java reads them."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from headrace.runtime.embedded.ports import HOST

KEYSTORE = "tls.p12"
KEYSTORE_PASSWORD = "headrace"  # noqa: S105 a PKCS12 store must have one; the file's mode protects it

_PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "SASL": "SASL_PLAINTEXT", "TLS": "SSL"}
_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
_SECURITY = "org.apache.kafka.common.security"
_SCRAM_ITERATIONS = 4096


def broker_settings(ports: Mapping[str, int], users: Mapping[str, str]) -> dict[str, str]:
    """The broker's properties. Paths are relative to its folder, which may be moved."""
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(it for name, it in listeners.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": ",".join(f"{name}:{_PROTOCOLS[name]}" for name in ports),
        "log.dirs": "records",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.retention.check.interval.ms": "10000",  # a small disk is soon full
        "log.cleaner.dedupe.buffer.size": "4194304",
        "broker.session.timeout.ms": "2000",  # a killed broker may register again only after it
        "broker.heartbeat.interval.ms": "500",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    for topic in _INTERNAL_TOPICS:
        settings |= {f"{topic}.replication.factor": "1", f"{topic}.num.partitions": "4"}
    if "TLS" in ports:
        settings |= _tls_settings()
    if "SASL" in ports:
        settings |= _sasl_settings(users)
    return settings


def _tls_settings() -> dict[str, str]:
    prefix = "listener.name.tls.ssl.keystore"
    return {
        f"{prefix}.type": "PKCS12",
        f"{prefix}.location": KEYSTORE,
        f"{prefix}.password": KEYSTORE_PASSWORD,
    }


def _sasl_settings(users: Mapping[str, str]) -> dict[str, str]:
    quoted = {name: re.sub(r'(["\\])', r"\\\1", password) for name, password in users.items()}
    plain = " ".join(f'user_{name}="{password}"' for name, password in quoted.items())
    prefix, scram = "listener.name.sasl", f"{_SECURITY}.scram.ScramLoginModule required;"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {plain};",
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
    }


def scram_users(users: Mapping[str, str]) -> list[str]:
    """The users for the format tool. Salted here: a command line can be read by everybody."""
    return [_scram_user(name, password, bits) for name, password in users.items() for bits in (256, 512)]


def _scram_user(name: str, password: str, bits: int) -> str:
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac(f"sha{bits}", password.encode(), salt, _SCRAM_ITERATIONS)
    return (
        f"SCRAM-SHA-{bits}=[name={name},iterations={_SCRAM_ITERATIONS},"
        f'salt="{_base64(salt)}",saltedpassword="{_base64(salted)}"]'
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Java's format, whose escapes are JSON's. For the owner's eyes: passwords are in it."""
    lines = [f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items()]
    path.touch(mode=0o600)
    path.write_text("".join(lines))
