"""The jars that a function's Spark needs beyond PySpark's: the Kafka source, and spec.spark.packages."""

import hashlib
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headrace.runtime.embedded.java import Java
from headrace.runtime.embedded.maven_jars import JarLock, JarSet, fetch_jars, read_lock
from headrace.runtime.embedded.spark.installed import NEEDS_EXTRA, pyspark_version
from headrace.runtime.spark.versions import nearest_version

EXTRA = f"spec.spark {NEEDS_EXTRA}"
_PATTERN = "[organisation]_[artifact]-[revision](-[classifier]).[ext]"

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
# Without the known holes of what older ones name (3.9.0: CVE-2025-27817, CVE-2026-35554, CVE-2026-33558).
_KAFKA_CLIENTS = "org.apache.kafka:kafka-clients:3.9.2"
# In the place of PySpark's own, which read what brokers send and have known holes (CVE-2025-12183, -66566 and
# CVE-2026-59949; CVE-2026-87795 and others). org.lz4 lives on under this name.
_CODECS = ("at.yawk.lz4:lz4-java:1.11.2", "com.github.luben:zstd-jni:1.5.7-17")
# What PySpark ships itself, in versions of its own: spark-submit leaves out Spark's modules too.
_EXCLUDED = (
    "org.scala-lang:scala-library",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "org.slf4j:slf4j-api",
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    *(
        f"org.apache.spark:spark-{module}_2.13"
        for module in (
            "catalyst",
            "core",
            "graphx",
            "kvstore",
            "launcher",
            "mllib",
            "mllib-local",
            "network-common",
            "network-shuffle",
            "repl",
            "sketch",
            "sql",
            "streaming",
            "tags",
            "unsafe",
        )
    ),
)


def spark_jars(java: Java, packages: tuple[str, ...]) -> list[Path]:
    """Return the jars, fetched where they are missing (18 MB without packages). See `fetch_jars`.

    The Kafka source is that of the PySpark that is installed: the server runs on its jars.
    """
    connector = nearest_version(pyspark_version()).connector
    return sorted(fetch_jars(spark_jar_set(connector, packages), java).glob("*.jar"))


def spark_lock(connector: str) -> Path:
    """Return the file of the sha256 of a connector's jars, which `make lock-jars` writes."""
    return Path(__file__).with_name(f"jars-{connector}.lock")


def spark_jar_set(connector: str, packages: tuple[str, ...] = ()) -> JarSet:
    """Return the set of the Kafka source's jars, with known sha256, and those of packages, with none.

    `connector` is the version of the source, as in versions.toml.
    """
    # A package of the user's takes the place of Headrace's own, in whatever version.
    named = {package.rpartition(":")[0] for package in packages}
    kafka = f"{_CONNECTOR}:{connector}"
    ours = (jar for jar in (kafka, _KAFKA_CLIENTS, *_CODECS) if jar.rpartition(":")[0] not in named)
    coordinates = sorted((*packages, *ours))
    digest = hashlib.sha256(" ".join(coordinates).encode()).hexdigest()[:12]
    own = f" and {', '.join(packages)}" if packages else ""
    return JarSet(
        folder=f"spark-{digest}",
        title=f"Spark's Kafka source{own}",
        module=_module(coordinates),
        extra=EXTRA,
        pattern=_PATTERN,
        lock=JarLock(read_lock(spark_lock(connector), _PATTERN), is_open=bool(packages)),
        count=0 if packages else 7,
        megabytes=0 if packages else 18,
    )


def stands_for_pyspark(jar: Path) -> bool:
    """Whether the jar must come before PySpark's, which have the same classes with known holes."""
    return jar.name.startswith(("at.yawk.lz4_lz4-java-", "com.github.luben_zstd-jni-"))


def _module(packages: list[str]) -> str:
    dependencies = "".join(
        '<dependency org={} name={} rev={} conf="default"/>'.format(*map(quoteattr, package.split(":")))
        for package in packages
    )
    excluded = "".join(
        "<exclude org={} module={}/>".format(*map(quoteattr, module.split(":"))) for module in _EXCLUDED
    )
    return (
        '<ivy-module version="2.0"><info organisation="headrace" module="spark-packages"/>'
        f"<dependencies>{dependencies}{excluded}</dependencies></ivy-module>"
    )
