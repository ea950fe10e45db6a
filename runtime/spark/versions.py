"""The versions of Spark that Headrace is tested with, and what each of them needs: versions.toml as types."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

_TABLE = Path(__file__).with_name("versions.toml")
_MINOR = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Minor:
    """A major and minor version, as in 4.3."""

    major: int
    minor: int

    @classmethod
    def of(cls, version: str) -> Self | None:
        """Return the minor version at the beginning of `version`, None where there is none.

        A vendor's own build has more text behind it, as in 4.0.1-amzn-0.
        """
        found = _MINOR.match(version)
        return cls(int(found[1]), int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class SparkVersion:
    """A row of versions.toml, which says what each field means."""

    minor: Minor
    tested: str
    connector: str
    java: Sequence[str]
    pandas: Sequence[int]
    oldest_pandas: str
    rows_need_server: Minor


@cache
def spark_versions() -> tuple[SparkVersion, ...]:
    """Return the rows of versions.toml, oldest first."""
    return tuple(
        SparkVersion(
            minor=_minor(row["minor"]),
            tested=row["tested"],
            connector=row["connector"],
            java=tuple(row["java"]),
            pandas=tuple(row["pandas"]),
            oldest_pandas=row["oldest_pandas"],
            rows_need_server=_minor(row["rows_need_server"]),
        )
        for row in tomllib.loads(_TABLE.read_text())["version"]
    )


def nearest_version(pyspark: str) -> SparkVersion:
    """Return the row of this PySpark; for one that is in no row, the newest row that isn't newer than it.

    The oldest row where there is none: whoever asks has refused that PySpark before, or does so later.
    """
    minor = Minor.of(pyspark)
    oldest, *others = spark_versions()
    return next((row for row in reversed(others) if minor and row.minor <= minor), oldest)


def fault_of_versions(pyspark: str, pandas: str) -> str:
    """Return why these two can't be used, as a clause about spec.spark; empty where they can."""
    oldest = spark_versions()[0].minor
    if not (minor := Minor.of(pyspark)) or minor < oldest:
        return f"runs with PySpark {oldest} and newer, here is {pyspark}: pip install 'headrace[spark]'"
    needed = nearest_version(pyspark).oldest_pandas
    if (found := Minor.of(pandas)) and found < _minor(needed):
        return f"needs pandas {needed} or newer, here is {pandas}: pip install 'headrace[spark]'"
    return ""


def notice_of_versions(pyspark: str, pandas: str) -> str:
    """Return what of the two is newer than all that was tested, as a clause about spec.spark, or nothing."""
    newest = spark_versions()[-1]
    untested = []
    if (minor := Minor.of(pyspark)) and minor > newest.minor:
        untested.append(
            f"PySpark {pyspark}; it is tested with {_listed([r.tested for r in spark_versions()])}"
        )
    if (found := Minor.of(pandas)) and found.major > max(newest.pandas):
        untested.append(f"pandas {pandas}; it is tested with {_listed([str(n) for n in newest.pandas])}")
    return f"runs with {' and with '.join(untested)}" if untested else ""


def notice_of_java(pyspark: str, java: str) -> str:
    """Return why this Java isn't one that Spark is made for, as a sentence, or nothing.

    `java` is a version or build, as in 21.0.5+11-LTS.
    """
    version = nearest_version(pyspark)
    found = _numbers(java)
    if any(found[:1] == _numbers(fitting)[:1] and found >= _numbers(fitting) for fitting in version.java):
        return ""
    made_for = _listed(
        [f"{it} or newer of {it.partition('.')[0]}" if "." in it else it for it in version.java]
    )
    return f"Spark {version.minor} is made for Java {made_for}, here is {java}: set JAVA_HOME to one of these"


def is_older(version: str, other: str) -> bool:
    """Return whether the minor version of the first is known to be older than that of the other."""
    first, second = Minor.of(version), Minor.of(other)
    return first is not None and second is not None and first < second


def fault_of_server(client: str, server: str) -> str:
    """Return what does not work between a PySpark and an older server, with a remedy, or nothing."""
    there, needed = Minor.of(server), nearest_version(client).rows_need_server
    if there is None or there >= needed:
        return ""
    if there < spark_versions()[0].minor:
        return f"the Spark server is {server}, which isn't tested; install Spark {needed} or newer there"
    return (
        f"the Spark server is {server}, older than this client, PySpark {client}: it takes no rows from here"
        f" (createDataFrame, events_to_dataframe); install pyspark=={there}.* here,"
        f" or Spark {needed} or newer there"
    )


def _minor(text: str) -> Minor:
    minor = Minor.of(text)
    assert minor is not None, text
    return minor


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
