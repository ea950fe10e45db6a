"""A Spark Connect server for tests, and for one record that is tried."""

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.spark.link import SparkLink


@contextmanager
def spark_server(
    conf: Mapping[str, str] | None = None, packages: tuple[str, ...] = (), master: str = "local[*]"
) -> Iterator[SparkLink]:
    """Start a Spark Connect server, as `spec.spark` has `headrace run` start it.

    Yields what `run_handler(..., spark=...)` takes. It takes some seconds, so start one for all tests. Raises
    HeadraceError where it can't be started.
    """
    spark = {"master": master, "conf": dict(conf or {}), "packages": list(packages)}
    spec = {"handler": "test:handler", "runtime": "python", "spark": spark}
    function = {"metadata": {"name": "test"}, "spec": spec}  # nobody runs it
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "function.yaml"
        path.write_text(yaml.safe_dump(function), encoding="utf-8")
        with serving(load_function(path)) as link:
            yield link


@contextmanager
def serving(function: FunctionSpec) -> Iterator[SparkLink]:
    """Run the server of a function that has spec.spark, in a thread. Raises HeadraceError."""
    loop = asyncio.new_event_loop()
    # The kernel kills the server with the thread that starts it: this one lives until the server has ended.
    # The caller's own thread may be in an event loop, as in an async test.
    thread = threading.Thread(target=loop.run_forever, name="spark-server")
    thread.start()

    def in_thread(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        server = SparkServer([function])
        in_thread(server.start())
        try:
            yield server.link
        finally:
            in_thread(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
