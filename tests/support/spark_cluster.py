"""A standalone Spark cluster on loopback: a master and two workers, each a process of its own."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replica import wait_until

from headrace.runtime.embedded.java import Java, dying_with_parent
from headrace.runtime.embedded.maven_jars import pyspark_jars
from headrace.runtime.embedded.ports import HOST, free_port
from headrace.runtime.embedded.spark.command import _OPENED

WORKERS = 2
# For what runs on it: an executor per worker, as small as Spark takes them.
SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """`url` is spark://host:port."""

    url: str
    _page: str

    def state(self) -> dict[str, Any]:
        """What its master says: `workers` and `activeapps`, among others."""
        with urllib.request.urlopen(self._page, timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found


@contextmanager
def standalone_cluster(java: Java, folder: Path) -> Iterator[Cluster]:
    """A core and 600 MiB per worker; logs and the executors' folders are in `folder`."""
    port, page = free_port(), free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as processes:
        options = ["--host", HOST, "--port", str(port), "--webui-port", str(page)]
        processes.enter_context(_running(java, folder / "master.txt", "master.Master", *options))
        for number in range(WORKERS):
            options = ["--host", HOST, "--cores", "1", "--memory", "600m", "--webui-port", "0"]
            options += ["--work-dir", str(folder / f"worker-{number}"), url]
            log = folder / f"worker-{number}.txt"
            processes.enter_context(_running(java, log, "worker.Worker", *options))
        cluster = Cluster(url, f"http://{HOST}:{page}/json/")
        wait_until(lambda: _has_workers(cluster))
        yield cluster


def _has_workers(cluster: Cluster) -> bool:
    try:
        return len(cluster.state()["workers"]) == WORKERS
    except OSError:  # its page isn't there yet
        return False


@contextmanager
def _running(java: Java, log: Path, name: str, *options: str) -> Iterator[None]:
    jars = pyspark_jars("")
    command = [
        str(java.executable),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "-cp",
        f"{jars}/*",
        f"org.apache.spark.deploy.{name}",
        *options,
    ]
    # What Spark's launch scripts would set: where executors find its jars.
    env = {**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"}
    with log.open("w") as output:
        process = subprocess.Popen(
            dying_with_parent(command), env=env, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)
