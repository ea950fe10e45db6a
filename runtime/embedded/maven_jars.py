"""Jars by Maven coordinates, through the Ivy that PySpark brings: fetched once, kept once per user.

Of each jar that Headrace fetches of its own accord the sha256 is known; no other jar is used in its place.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from headrace.runtime.embedded.data_folder import try_lock
from headrace.runtime.embedded.java import Java, dying_with_parent
from headrace.runtime.embedded.subprocesses import pause, program
from headrace.runtime.errors import UsageError


@dataclass(frozen=True, slots=True)
class JarLock:
    """The sha256 of each jar of a set, by file name.

    An open set may hold more: jars that a user named, and those that they bring.
    """

    digests: Mapping[str, str]
    is_open: bool = False

    def complaint(self, folder: Path) -> str | None:
        """Return what is wrong with the jars of `folder`, None where nothing is. 0.1 s for Kafka's 44 MB."""
        found = {path.name: path for path in sorted(folder.glob("*.jar"))}
        for name, path in found.items():  # in order, so that the same jar is named each time
            expected = self.digests.get(name)
            if expected is None and not self.is_open:
                return f"{name} is none of the jars that Headrace knows"
            if expected is not None and (wrong := _difference(path, expected)):
                return f"{name} {wrong}"
        missing = [] if self.is_open else sorted(self.digests.keys() - found.keys())
        return f"{missing[0]} is missing" if missing else None


def read_lock(path: Path, pattern: str) -> dict[str, str]:
    """Return sha256 by file name; lines are `organisation:artifact:revision sha256`, `pattern` a JarSet's."""
    lines = (line.split() for line in path.read_text().splitlines() if not line.startswith("#"))
    return {jar_file_name(coordinates, pattern): digest for coordinates, digest in lines}


def jar_file_name(coordinates: str, pattern: str) -> str:
    """Return how Ivy names the jar, which has no classifier."""
    name = pattern.replace("(-[classifier])", "").replace("[ext]", "jar")
    for part, value in zip(("organisation", "artifact", "revision"), coordinates.split(":"), strict=True):
        name = name.replace(f"[{part}]", value)
    return name


def sha256(path: Path) -> str:
    """Return the file's sha256 in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _difference(path: Path, expected: str) -> str | None:
    try:
        found = sha256(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if found != expected:
        return f"is another than the one that Headrace knows: its sha256 is {found}, not {expected}"
    return None


_STEPS = {"\tfound ": "resolving", "\t[SUCCESSFUL ]": "downloading"}  # Ivy's words, ours
_LOCK_POLL_SECONDS = 0.1
_NETWORK = (
    "check the network (a proxy goes into JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... -Dhttps.proxyPort=...)"
)
_UNTRUSTED = "PKIX path building failed"  # Java's words
_TRUST = (
    "Java doesn't trust the certificate that it was shown, perhaps a proxy's: "
    "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/etc/ssl/certs/java/cacerts names a trust store that has it"
)
_CAUSES = (r"Exception|No space left|Server access", r": not found$")  # the second follows from the first


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are fetched together. `folder` is their place in the cache, `title` what people read.

    `module` is Ivy's description of what to fetch, `pattern` how it names the files. `count` and `megabytes`
    are for the progress only; 0 where nobody knows. `extra` says what to install where PySpark is missing.
    `lock` has the sha256 of each.
    """

    folder: str
    title: str
    module: str
    extra: str
    lock: JarLock
    pattern: str = "[artifact]-[revision](-[classifier]).[ext]"
    count: int = 0
    megabytes: int = 0

    @property
    def size(self) -> str:
        """`46 jars, 43 MB, once per user`, as far as it is known."""
        known = f"{self.count} jars, {self.megabytes} MB, " if self.count else ""
        return f"{known}once per user"


def cache_dir() -> Path:
    """Return ${XDG_CACHE_HOME:-~/.cache}/headrace, which may be deleted at any time, and is filled again."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base.expanduser().absolute() / "headrace"


def pyspark_jars(extra: str) -> Path:
    """Return the folder of the jars in PySpark. UsageError with the text `extra` where there is none."""
    spec = importlib.util.find_spec("pyspark")  # finds it without the cost of importing it
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (jars := Path(folder, "jars")).is_dir():
            return jars
    raise UsageError(extra)


def fetch_jars(jars: JarSet, java: Java) -> Path:
    """Return the folder with the jars, each with its known sha256. The first call of a user downloads them.

    Blocks. Two processes at once end well: one fetches, the other waits for it.
    Raises UsageError: no pyspark, nothing to download from, nowhere to write, jars that are others.
    """
    home = cache_dir() / jars.folder
    if not home.is_dir():
        _fetch_once(jars, java, home)
    # Looked at anew each time: somebody may have put another jar into the cache since.
    if wrong := jars.lock.complaint(home):
        raise UsageError(
            f"{home}: {wrong}; nothing of it is used: delete that folder, to have {jars.title} fetched again"
        )
    return home


def _fetch_once(jars: JarSet, java: Java, home: Path) -> None:
    ivy = next(pyspark_jars(jars.extra).glob("ivy-*.jar"))
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with _locked(home.with_name(f"{home.name}.lock"), jars):
            if not home.is_dir():  # another process may have brought it while we waited
                _fetch(jars, java, ivy, home)
    except OSError as error:
        raise UsageError(
            f"cannot write the jars of {jars.title} to {error.filename or home.parent}: {error.strerror}; "
            "make room there or point XDG_CACHE_HOME at another folder"
        ) from error


@contextmanager
def _locked(path: Path, jars: JarSet) -> Iterator[None]:
    """Hold the lock: one process at a time. The kernel frees it however its holder ends."""
    with path.open("w") as lock:
        if not try_lock(lock):
            _console().print(f"another process is fetching {jars.title}; waiting for it")
        while not try_lock(lock):
            # A blocking wait for the lock could not be ended when this work is cancelled.
            pause(_LOCK_POLL_SECONDS)
        yield


def _fetch(jars: JarSet, java: Java, ivy: Path, home: Path) -> None:
    """Download the jars beside `home`, and rename: a folder of that name is always complete."""
    partial, ivy_cache = home.with_name(f"{home.name}.partial"), home.with_name(f"{home.name}.ivy")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    ivy_cache.mkdir(exist_ok=True)
    module = ivy_cache / "module.xml"
    module.write_text(jars.module)
    command = [
        str(java.executable),
        "-Dsun.net.client.defaultConnectTimeout=15000",
        "-Dsun.net.client.defaultReadTimeout=60000",
        f"-Divy.default.ivy.user.dir={ivy_cache}",
        "-jar",
        str(ivy),
        "-cache",
        str(ivy_cache),
        "-ivy",
        str(module),
        "-types",
        "jar",
        "bundle",
        "-confs",
        "default",
        "-retrieve",
        f"{partial}/{jars.pattern}",
    ]
    _run_ivy(command, jars)
    if wrong := jars.lock.complaint(partial):
        # Without this the next try would find the wrong jar in Ivy's cache again.
        shutil.rmtree(ivy_cache, ignore_errors=True)
        raise UsageError(
            f"cannot use what was fetched of {jars.title}: {wrong}; nothing of it is used: "
            "see what stands between here and Maven Central (a proxy, a mirror), then try again"
        )
    partial.rename(home)
    shutil.rmtree(ivy_cache, ignore_errors=True)  # kept after a failure: the next try goes on there


def _run_ivy(command: list[str], jars: JarSet) -> None:
    with program(dying_with_parent(command), errors=subprocess.STDOUT) as process:
        assert process.stdout is not None
        output_lines = _follow(process.stdout, jars)
    if process.returncode != 0:
        reason = _reason(output_lines)
        remedy = _TRUST if _UNTRUSTED in reason else _NETWORK
        raise UsageError(f"cannot fetch {jars.title}: {reason}; {remedy}")


def _follow(lines: Iterable[str], jars: JarSet) -> list[str]:
    """Show the progress on stderr, a bar for people and a line now and then for a log."""
    console, output_lines = _console(), []
    console.print(f"fetching {jars.title} ({jars.size})")
    with Progress(console=console, disable=not console.is_terminal) as bars:
        bar = {mark: bars.add_task(verb, total=jars.count or None) for mark, verb in _STEPS.items()}
        counts = dict.fromkeys(_STEPS, 0)
        for line in lines:
            output_lines.append(line.strip())
            for mark in filter(line.startswith, _STEPS):
                counts[mark] += 1
                bars.update(bar[mark], completed=counts[mark])
                if not console.is_terminal and counts[mark] % 10 == 0:
                    of = f" of {jars.count}" if jars.count else ""
                    console.print(f"{_STEPS[mark]}: {counts[mark]}{of} jars")
    return output_lines


def _reason(output_lines: list[str]) -> str:
    """Return the line of Ivy's report that names the cause, not its consequences."""
    telling = (line.lstrip(": ") for cause in _CAUSES for line in output_lines if re.search(cause, line))
    return next(telling, next(filter(None, reversed(output_lines)), "Ivy did not start"))


def _console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)
