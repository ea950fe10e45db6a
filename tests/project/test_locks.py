"""Locks, the bill of materials and what setup.cfg and the sources ask for are in step. Needs no network."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from root import ROOT

from headrace.runtime.embedded.kafka.jars import KAFKA_JARS
from headrace.runtime.embedded.maven_jars import JarSet, jar_file_name
from headrace.runtime.embedded.spark.jars import spark_jar_set
from headrace.runtime.spark.versions import spark_versions

BILL = ROOT / "sbom.cdx.json"


def asked_for() -> list[Requirement]:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    texts = [setup["options"]["install_requires"], *(extras[name] for name in extras)]
    return [Requirement(line) for text in texts for line in text.strip().splitlines()]


def locked() -> set[tuple[str, str]]:
    """Names and versions: of a package several, where its newest one is not for all Pythons."""
    texts = [(ROOT / name).read_text() for name in ("requirements.lock", "requirements-java.lock")]
    return set(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==([^ ]+)", "\n".join(texts), re.MULTILINE))


@pytest.mark.parametrize("wanted", asked_for(), ids=str)
def test_what_setup_cfg_asks_for_is_locked_in_a_version_that_it_allows(wanted: Requirement) -> None:
    found = [version for name, version in locked() if name == wanted.name.lower()]
    assert found, "make upgrade"
    assert all(map(wanted.specifier.contains, found)), "make upgrade"


CONNECTORS = list(dict.fromkeys(version.connector for version in spark_versions()))
SPARK_JARS = [spark_jar_set(connector) for connector in CONNECTORS]


@pytest.mark.parametrize("jars", [KAFKA_JARS, *SPARK_JARS], ids=["kafka", *CONNECTORS])
def test_the_jars_that_are_asked_for_are_locked_in_the_version_asked_for(jars: JarSet) -> None:
    asked = [
        f"{it.attrib['org']}:{it.attrib['name']}:{it.attrib['rev']}"
        for it in ET.fromstring(jars.module).iter("dependency")
    ]
    assert {jar_file_name(coordinates, jars.pattern) for coordinates in asked} <= set(jars.lock.digests), (
        "make lock-jars"
    )


def printed_bill() -> str:
    command = [sys.executable, "-P", str(ROOT / "tools/sbom.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_bill_of_materials_is_up_to_date() -> None:
    assert BILL.read_text() == printed_bill(), "make generate"


def test_the_bill_names_all_that_is_locked_once_and_what_it_is_for() -> None:
    components = {it["purl"]: it for it in json.loads(BILL.read_text())["components"]}
    python = {url.removeprefix("pkg:pypi/") for url in components if url.startswith("pkg:pypi/")}
    assert python == {f"{name}@{version}" for name, version in locked()}
    jars = [it for url, it in components.items() if url.startswith("pkg:maven/")]
    digests = {digest for jars in (KAFKA_JARS, *SPARK_JARS) for digest in jars.lock.digests.values()}
    assert sorted(it["hashes"][0]["content"] for it in jars) == sorted(digests)
    scopes = {it["name"]: it["scope"] for it in components.values()}
    assert [
        scopes[name] for name in ("aiohttp", "yarl", "pyspark", "py4j", "kafka-clients", "pytest", "pluggy")
    ] == [
        *["required"] * 2,
        *["optional"] * 3,
        *["excluded"] * 2,
    ]


def test_the_audit_names_a_tool_in_one_version() -> None:
    recipe = Path(ROOT / "Makefile").read_text().partition("\naudit:")[2].partition("\n\n")[0]
    assert re.search(r"pip-audit==[\d.]+ --strict ", recipe)
