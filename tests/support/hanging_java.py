"""A Java that never gets on: what a start waits for may take as long as it likes."""

from pathlib import Path

from replica import environment, lines

from headrace.runtime.embedded.java import find_java
from headrace.runtime.embedded.kafka.format import kept_checkpoint
from headrace.runtime.embedded.kafka.jars import kafka_jars

STEPS = ("version", "fetch", "format", "broker", "spark")
"""Where it hangs: asked for its version, at the jars, at the format tool, as a broker, as a Spark server."""

_SCRIPT = """\
#!/bin/sh
hang() {{ echo $$ >> {folder}/hanging; exec sleep 1000; }}
if [ "$*" = -version ]; then
    [ {step} = version ] && hang
    echo 'openjdk version "21.0.8"' >&2
    echo 'OpenJDK Runtime Environment (build 21.0.8+9)' >&2
    exit 0
fi
hang
"""


def hanging_java(folder: Path, step: str) -> dict[str, str]:
    """The environment of a `headrace run` that gets no further than `step`; its temporary files are here."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_SCRIPT.format(folder=folder, step=step))
    java.chmod(0o755)
    (folder / "tmp").mkdir()
    places = {"JAVA_HOME": str(folder / "java"), "TMPDIR": str(folder / "tmp")}
    if step == "spark":
        return environment(**places)
    if step in {"format", "broker"}:
        kept = kafka_jars(find_java())
        cache = folder / "cache" / "headrace" / kept.name
        cache.mkdir(parents=True)
        for jar in kept.glob("*.jar"):
            (cache / jar.name).symlink_to(jar)
    if step == "broker":
        kept_checkpoint(cache).touch()
    return environment(**places, XDG_CACHE_HOME=str(folder / "cache"))


def hanging(folder: Path) -> list[int]:
    """The processes that have come to where they hang."""
    return [int(pid) for pid in lines(folder, "hanging")]


def left_behind(folder: Path) -> list[str]:
    """What is in the folder for temporary files."""
    return [path.name for path in (folder / "tmp").iterdir()]
