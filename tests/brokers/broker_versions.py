"""`make test-brokers`: the same tests on each Kafka that is supported, and a table of what passed.

Brokers are started from their jars. Of other versions than the embedded one no sha256 is known here: their
jars are used as Maven Central has them.

usage: broker_versions.py [VERSION...]
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from root import ROOT

from headrace.runtime.embedded.java import Java
from headrace.runtime.embedded.kafka import process
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka
from headrace.runtime.embedded.kafka.jars import KAFKA_JARS, KAFKA_VERSION
from headrace.runtime.embedded.maven_jars import JarLock, JarSet, fetch_jars

VERSIONS = ("3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", KAFKA_VERSION)
_KAFKA = "tests/triggers/kafka"
SUITES = {
    "classic": (
        f"{_KAFKA}/test_kafka_trigger.py",
        f"{_KAFKA}/test_kafka_committer.py",
        f"{_KAFKA}/test_rebalances.py",
    ),
    "consumer": (
        f"{_KAFKA}/group",
        f"{_KAFKA}/test_consumer_rebalances.py",
        f"{_KAFKA}/test_static_members.py",
    ),
    "transactions": (
        f"{_KAFKA}/test_exactly_once.py",
        f"{_KAFKA}/test_transactions.py",
        f"{_KAFKA}/test_partition_transactions.py",
    ),
}
"""Tests of each, by what they are about."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the tests of one suite on one broker."""

    passed: int
    skipped: int
    failed: tuple[str, ...]

    def __str__(self) -> str:
        more = [
            f"{count} {what}"
            for count, what in ((len(self.failed), "FAILED"), (self.skipped, "skipped"))
            if count
        ]
        return ", ".join([f"{self.passed} passed", *more])


def jars_of(version: str) -> JarSet:
    """The jars of a Kafka; of another than the embedded one without known sha256."""
    if version == KAFKA_VERSION:
        return KAFKA_JARS
    return replace(
        KAFKA_JARS,
        folder=f"kafka-{version}",
        title=f"Apache Kafka {version}",
        module=KAFKA_JARS.module.replace(KAFKA_VERSION, version),
        lock=JarLock({}, is_open=True),
        count=0,
        megabytes=0,
    )


def suites_of(version: str) -> list[str]:
    """What this Kafka is tested with: the protocol `consumer` came with 4.0."""
    return [name for name in SUITES if name != "consumer" or int(version.split(".", maxsplit=1)[0]) >= 4]


def read_outcome(report: Path, exit_code: int) -> Outcome:
    """From a JUnit report. Tests that could not even be collected have failed."""
    cases = list(ET.parse(report).iter("testcase")) if report.is_file() else []
    failed = [it for it in cases if it.find("failure") is not None or it.find("error") is not None]
    skipped = sum(it.find("skipped") is not None for it in cases)
    names = tuple(f"{it.get('classname')}::{it.get('name')}" for it in failed)
    if exit_code and not names:
        names = (f"pytest ended with {exit_code}",)
    return Outcome(len(cases) - len(failed) - skipped, skipped, names)


def run_suite(bootstrap: str, name: str, folder: Path) -> Outcome:
    """Run the tests of a suite on this broker."""
    report = folder / f"{name}.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-m",
        "not full",
        f"--junitxml={report}",
        *SUITES[name],
    ]
    env = {**os.environ, "HEADRACE_TEST_BROKERS": bootstrap}
    return read_outcome(report, subprocess.run(command, cwd=ROOT, env=env, check=False).returncode)


async def start(version: str) -> EmbeddedKafka:
    """A broker of this version, with the settings of the embedded one."""

    def jars(java: Java) -> Path:
        return fetch_jars(jars_of(version), java)

    kafka = EmbeddedKafka()
    with mock.patch.object(process, "kafka_jars", jars):
        await kafka.start()
    return kafka


def run_version(version: str) -> dict[str, Outcome]:
    """Run all suites of a version, one after the other, on one broker."""
    kafka = asyncio.run(start(version))
    try:
        with tempfile.TemporaryDirectory() as folder:
            return {name: run_suite(kafka.bootstrap, name, Path(folder)) for name in suites_of(version)}
    finally:
        asyncio.run(kafka.stop())


def table(outcomes: dict[str, dict[str, Outcome]]) -> str:
    """In Markdown: a row for each Kafka."""
    rows = [["Kafka", *SUITES], ["---"] * (1 + len(SUITES))]
    rows += [
        [version, *(str(found.get(name, "-")) for name in SUITES)] for version, found in outcomes.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> int:
    """0 where all have passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    outcomes = {version: run_version(version) for version in parser.parse_args().versions}
    print(table(outcomes))
    failed = [f"{v}: {name}" for v, found in outcomes.items() for it in found.values() for name in it.failed]
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
