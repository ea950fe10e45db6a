"""The Spark of a function, as `headrace validate --check-spark` finds it."""

import importlib.metadata
from dataclasses import replace

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.embedded.java import find_java
from headrace.runtime.embedded.spark.installed import pyspark_version
from headrace.runtime.errors import UsageError
from headrace.runtime.processor.loading import LoadedFunction
from headrace.runtime.spark.check import ServerAnswer, check_remote
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.spark.versions import notice_of_java


def check_spark(loaded: LoadedFunction) -> tuple[LoadedFunction, str]:
    """Return the function, or its problems, and a clause about its spec.spark; empty where it has none.

    A remote server is asked, each question for some seconds. A server of our own isn't started.
    """
    function = loaded.function
    if function is None or function.spark is None:
        return loaded, ""
    answer = _answer(function)
    problems = tuple(function.problem(("spec", "spark"), problem) for problem in answer.problems)
    return (replace(loaded, function=None, problems=problems) if problems else loaded), answer.shown


def _answer(function: FunctionSpec) -> ServerAnswer:
    spec = function.spark
    assert spec is not None
    if spec.remote:
        return check_remote(SparkLink(spec.remote, spec.token, spec.conf))
    try:
        java = find_java()
    except UsageError as error:
        return ServerAnswer("", [f"starts a server, and here is {error}"])
    versions = f"PySpark {pyspark_version()}, pandas {importlib.metadata.version('pandas')}"
    shown = f"a server is started with the run: {versions}, Java {java.major} ({java.origin})"
    notice = notice_of_java(pyspark_version(), java.build)
    return ServerAnswer("; ".join(filter(None, [shown, notice])), [])
