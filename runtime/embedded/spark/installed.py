"""The check that this Python has what a function with spec.spark needs, without importing it."""

import importlib.metadata
import re
from collections.abc import Iterator

from headrace.runtime.errors import UsageError
from headrace.runtime.spark.versions import fault_of_versions, notice_of_versions

NEEDS_EXTRA = "needs the extra: pip install 'headrace[spark]'"
# The second is PySpark's client alone, enough for a server that runs elsewhere.
_DISTRIBUTIONS = ("pyspark", "pyspark-client")
# In PySpark's metadata: `pandas>=2.2.0; extra == "connect"`.
_REQUIREMENT = re.compile(r"""([\w.-]+)[^;]*(?:; *extra *== *["']connect["'])?""")


def check_spark_installed() -> None:
    """Raise a UsageError that names what is missing or doesn't fit."""
    if fault := spark_fault():
        raise UsageError(f"spec.spark {fault}")


def spark_fault() -> str:
    """Return what spec.spark lacks here, as a clause about it; empty where nothing is missing."""
    if missing := list(_missing()):
        return f"{NEEDS_EXTRA} (missing: {', '.join(missing)})"
    return fault_of_versions(pyspark_version(), _version("pandas"))


def spark_notice() -> str:
    """Return what is newer here than all that Headrace is tested with, as a clause; often empty."""
    if any(_missing()):
        return ""
    return notice_of_versions(pyspark_version(), _version("pandas"))


def pyspark_version() -> str:
    """Return the version of PySpark that is installed, empty where none is."""
    found = (_version(name) for name in _DISTRIBUTIONS)
    return next(filter(None, found), "")


def _missing() -> Iterator[str]:
    """Yield the packages that PySpark's client needs, as PySpark itself lists them, and that aren't here."""
    distribution = next(filter(_version, _DISTRIBUTIONS), None)
    if distribution is None:
        yield _DISTRIBUTIONS[0]
        return
    for requirement in importlib.metadata.requires(distribution) or ():
        named = _REQUIREMENT.fullmatch(requirement)  # none for the requirements of other extras
        if named and not _version(named[1]):
            yield named[1]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
