"""Apache Kafka's jars: resolved by coordinates through the Ivy in PySpark, kept once per user."""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from headrace.runtime.errors import UsageError
from headrace.runtime.java import Java, dying_with_parent

KAFKA_VERSION = "4.1.1"
_JARS, _MEGABYTES = 46, 43  # Kafka's 45 and a logger
_STEPS = {"\tfound ": "resolving", "\t[SUCCESSFUL ]": "downloading"}  # Ivy's words, ours

# Kafka brings no binding for its logging interface; without one its errors would be silent.
_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="headrace" module="embedded-kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
  </dependencies>
</ivy-module>
"""


def cache_dir() -> Path:
    """${XDG_CACHE_HOME:-~/.cache}/headrace: may be deleted at any time, is filled again."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base.expanduser().absolute() / "headrace"


def kafka_jars(java: Java) -> Path:
    """The folder with Kafka's jars. The first call of a user downloads them (about 40 s).

    Blocks. Two processes at once end well: one fetches, the other waits for it.
    Raises UsageError: no pyspark, nothing to download from, nowhere to write.
    """
    home = cache_dir() / f"kafka-{KAFKA_VERSION}"
    if home.is_dir():
        return home
    ivy = _ivy_jar()
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with _locked(home.parent / "kafka.lock"):
            if not home.is_dir():  # another process may have brought it while we waited
                _fetch(java, ivy, home)
    except OSError as error:
        raise UsageError(
            f"cannot write Kafka's jars to {error.filename or home.parent}: {error.strerror}; "
            "make room there or point XDG_CACHE_HOME at another folder"
        ) from error
    return home


def class_path(home: Path) -> str:
    """Every jar of `home`, always in the same order: a class data archive depends on it."""
    return os.pathsep.join(str(jar) for jar in sorted(home.glob("*.jar")))


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds it without the cost of importing it
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for jar in Path(folder, "jars").glob("ivy-*.jar"):
            return jar
    raise UsageError("embedded Kafka needs the extra: pip install 'headrace[embedded]'")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time. The kernel gives the lock back however its holder ends."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _console().print("another process is fetching Apache Kafka; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(java: Java, ivy: Path, home: Path) -> None:
    """Bring the jars beside `home` and rename: a folder of that name is always complete."""
    partial, ivy_cache = home.with_name(f"{home.name}.partial"), home.parent / "ivy"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    module = ivy_cache / "embedded-kafka.xml"
    ivy_cache.mkdir(exist_ok=True)
    module.write_text(_IVY_MODULE)
    _run_ivy(
        [
            *(str(java.executable), "-Dsun.net.client.defaultConnectTimeout=15000"),
            *(
                "-Dsun.net.client.defaultReadTimeout=60000",
                f"-Divy.default.ivy.user.dir={ivy_cache}",
            ),
            *("-jar", str(ivy), "-cache", str(ivy_cache), "-ivy", str(module)),
            *("-types", "jar", "bundle", "-confs", "default"),
            *("-retrieve", f"{partial}/[artifact]-[revision](-[classifier]).[ext]"),
        ]
    )
    partial.rename(home)
    shutil.rmtree(ivy_cache, ignore_errors=True)  # kept after a failure: the next try goes on there


def _run_ivy(command: list[str]) -> None:
    with subprocess.Popen(
        dying_with_parent(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        said = _follow(process.stdout)
    if process.returncode != 0:
        raise UsageError(
            f"cannot fetch Apache Kafka {KAFKA_VERSION}: {_reason(said)}; check the network "
            "(a proxy goes into JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... -Dhttps.proxyPort=...)"
        )


def _follow(lines: Iterable[str]) -> list[str]:
    """Show the progress on stderr, a bar for people and a line now and then for a log."""
    console, said = _console(), []
    console.print(f"fetching Apache Kafka {KAFKA_VERSION} ({_JARS} jars, {_MEGABYTES} MB, once per user)")
    with Progress(console=console, disable=not console.is_terminal) as bars:
        bar = {mark: bars.add_task(verb, total=_JARS) for mark, verb in _STEPS.items()}
        counts = dict.fromkeys(_STEPS, 0)
        for line in lines:
            said.append(line.strip())
            for mark in filter(line.startswith, _STEPS):
                counts[mark] += 1
                bars.update(bar[mark], completed=counts[mark])
                if not console.is_terminal and counts[mark] % 10 == 0:
                    console.print(f"{_STEPS[mark]}: {counts[mark]} of {_JARS} jars")
    return said


def _reason(said: list[str]) -> str:
    """The one line of Ivy's report that names the cause, not its consequences."""
    telling = (line for line in said if re.search(r"Exception|No space left|Server access", line))
    return next(telling, next(filter(None, reversed(said)), "Ivy did not start"))


def _console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)
