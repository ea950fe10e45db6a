"""Apache Kafka's jars: resolved by coordinates, kept once per user."""

import os
from pathlib import Path

from headrace.runtime.embedded.java import Java
from headrace.runtime.embedded.maven_jars import JarLock, JarSet, fetch_jars, read_lock

KAFKA_VERSION = "4.4.0"
LOCK = Path(__file__).with_name("jars.lock")  # `make lock-jars` writes it

# Kafka brings no binding for its logging interface; without one its errors would be silent.
_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="headrace" module="embedded-kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
  </dependencies>
</ivy-module>
"""
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_LOCKED = JarLock(read_lock(LOCK, _PATTERN))
KAFKA_JARS = JarSet(
    folder=f"kafka-{KAFKA_VERSION}",
    title=f"Apache Kafka {KAFKA_VERSION}",
    module=_IVY_MODULE,
    extra="embedded Kafka needs the extra: pip install 'headrace[embedded]'",
    pattern=_PATTERN,
    lock=_LOCKED,
    count=len(_LOCKED.digests),
    megabytes=43,
)


def kafka_jars(java: Java) -> Path:
    """Return the folder with Kafka's jars, fetched where it is missing (about 40 s). See `fetch_jars`."""
    return fetch_jars(KAFKA_JARS, java)


def class_path(home: Path) -> str:
    """Return a class path of every jar of `home`, always in the same order: a class data archive needs it."""
    return os.pathsep.join(str(jar) for jar in sorted(home.glob("*.jar")))
