"""Print the software bill of materials, CycloneDX JSON: what the locks say, and nothing that is made up.

What a Python package needs stands in the lock after `# via`. `scope` is CycloneDX's: required by Headrace,
optional (one of its extras), excluded (tests and tools only).
"""

import json
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from headrace.runtime.embedded.kafka.jars import LOCK as KAFKA_LOCK
from headrace.runtime.embedded.spark.jars import spark_lock
from headrace.runtime.spark.versions import spark_versions

ROOT = Path(__file__).parents[1]
_SCOPES = ("required", "optional", "excluded")
_PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)(?:\[[^]]*\])?==(?P<version>[^ ]+)", re.MULTILINE)
_VIA = re.compile(r"^    #(?: via)? +(?P<parent>[a-z0-9-]+)(?: \(|$)", re.MULTILINE)


def bill() -> dict[str, Any]:
    """The same for the same locks: no time, no random number."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    name, version = setup["metadata"]["name"], setup["metadata"]["version"]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": setup["metadata"]["license_expression"]}}],
                "purl": f"pkg:pypi/{name}@{version}",
            }
        },
        "components": [*python_packages(setup), *jars()],
    }


def python_packages(setup: ConfigParser) -> Iterator[dict[str, Any]]:
    """Of requirements.lock, and the Java as a wheel."""
    for path in ("requirements.lock", "requirements-java.lock"):
        text = (ROOT / path).read_text()
        scopes = scopes_of(text, setup)
        for found in _PINNED.finditer(text):
            yield component("pypi", found["name"], found["version"], scope=scopes[found["name"]])


def scopes_of(lock: str, setup: ConfigParser) -> dict[str, str]:
    """The strongest scope of all that a package is needed by."""
    blocks = [block for block in re.split(r"\n(?=[a-z])", lock) if _PINNED.match(block)]
    parents = {found["name"]: _VIA.findall(block) for block in blocks if (found := _PINNED.match(block))}
    scopes = {name: _SCOPES.index(direct_scope(name, setup)) for name in parents}
    for _ in parents:  # as far as the longest chain goes
        scopes = {
            name: min(scopes[name], *(scopes.get(above, 2) for above in parents[name]), 2) for name in parents
        }
    return {name: _SCOPES[scope] for name, scope in scopes.items()}


def direct_scope(name: str, setup: ConfigParser) -> str:
    """By where setup.cfg names it."""
    extras = setup["options.extras_require"]
    if name in names_in(setup["options"]["install_requires"]):
        return "required"
    return (
        "optional"
        if any(name in names_in(extras[extra]) for extra in extras if extra != "dev")
        else "excluded"
    )


def names_in(requirements: str) -> set[str]:
    """Normalized, as the lock has them."""
    return {
        match[0].lower().replace("_", "-")
        for match in map(re.compile(r"[\w-]+").match, requirements.split())
        if match
    }


def jars() -> Iterator[dict[str, Any]]:
    """Of all sets; what several have is there once."""
    paths = {KAFKA_LOCK, *(spark_lock(version.connector) for version in spark_versions())}
    lines = {line for path in paths for line in path.read_text().splitlines() if line[:1] != "#"}
    for line in sorted(lines):
        coordinates, digest = line.split()
        group, name, version = coordinates.split(":")
        yield component("maven", name, version, group=group, scope="optional", digest=digest)


def component(kind: str, name: str, version: str, scope: str, **more: str) -> dict[str, Any]:
    """A library; `kind` is that of its package URL. `more` may have a `group` and a `digest`."""
    group, digest = more.get("group"), more.get("digest")
    url = f"pkg:{kind}/{f'{group}/' if group else ''}{name}@{version}"
    return {
        "type": "library",
        "bom-ref": url,
        **({"group": group} if group else {}),
        "name": name,
        "version": version,
        "scope": scope,
        **({"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {}),
        "purl": url,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=1) + "\n")
