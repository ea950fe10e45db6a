"""The check that this Python has what a function with spec.spark needs, without importing it."""

import importlib.metadata
import importlib.util

from headrace.runtime.errors import UsageError

NEEDS_EXTRA = "needs the extra: pip install 'headrace[spark]'"
_MODULES = {
    "pyspark": "pyspark",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
}


def check_spark_installed() -> None:
    """Raise a UsageError that names what is missing or doesn't fit."""
    if fault := spark_fault():
        raise UsageError(f"spec.spark {fault}")


def spark_fault() -> str:
    """Return what spec.spark lacks here, as a clause about it; empty where nothing is missing."""
    missing = [package for module, package in _MODULES.items() if not _has(module)]
    if missing:
        return f"{NEEDS_EXTRA} (missing: {', '.join(missing)})"
    pyspark, pandas = importlib.metadata.version("pyspark"), importlib.metadata.version("pandas")
    if not pyspark.startswith("4.0."):
        return f"runs with PySpark 4.0, here is {pyspark}: pip install 'headrace[spark]'"
    if int(pandas.partition(".")[0]) >= 3:
        return f"needs pandas below 3 for PySpark 4.0, here is {pandas}: pip install 'headrace[spark]'"
    return ""


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False
