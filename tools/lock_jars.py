"""Write the locks of the jars that Headrace fetches: what Maven Central gives now, in the versions declared.

Ivy compares each jar with the checksum beside it at Maven Central. Read what differs before you commit.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from headrace.runtime.embedded.java import find_java
from headrace.runtime.embedded.kafka.jars import KAFKA_JARS
from headrace.runtime.embedded.kafka.jars import LOCK as KAFKA_LOCK
from headrace.runtime.embedded.maven_jars import JarLock, JarSet, fetch_jars, sha256
from headrace.runtime.embedded.spark.jars import spark_jar_set, spark_lock
from headrace.runtime.spark.versions import spark_versions

_HEAD = "# Written by `make lock-jars`: each jar, and its sha256.\n"


def main() -> None:
    """Write Kafka's lock and one of each connector, each from a cache of its own."""
    connectors = dict.fromkeys(version.connector for version in spark_versions())
    locks = [(KAFKA_LOCK, KAFKA_JARS), *((spark_lock(it), spark_jar_set(it)) for it in connectors)]
    for path, jars in locks:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            path.write_text(_HEAD + "".join(f"{line}\n" for line in lines(jars)))


def lines(jars: JarSet) -> list[str]:
    """`organisation:artifact:revision sha256`, sorted."""
    unlocked = replace(
        jars,
        pattern="[organisation]:[artifact]:[revision](-[classifier]).[ext]",
        lock=JarLock({}, is_open=True),
    )
    return sorted(
        f"{jar.stem} {sha256(jar)}" for jar in Path(fetch_jars(unlocked, find_java())).glob("*.jar")
    )


if __name__ == "__main__":
    main()
