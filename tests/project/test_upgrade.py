"""What `make upgrade` says has moved."""

import re
import runpy
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from root import ROOT

BEFORE = """\
aiohttp==3.14.3 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via headrace (setup.cfg)
numpy==2.3.0 ; python_full_version < '3.12' \\
    --hash=sha256:cc
    # via pandas
pandas[arrow]==2.3.3 \\
    --hash=sha256:dd
six==1.17.0 \\
    --hash=sha256:ee
"""
AFTER = """\
aiohttp==3.14.3 \\
    --hash=sha256:aa \\
    --hash=sha256:bb \\
    --hash=sha256:b3
numpy==2.3.0 ; python_full_version < '3.12' \\
    --hash=sha256:cc
numpy==2.4.0 ; python_full_version >= '3.12' \\
    --hash=sha256:c2
pandas[arrow]==3.0.1 \\
    --hash=sha256:d2
zstd==1.0 \\
    --hash=sha256:ff
"""


@pytest.fixture
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "upgrade.py"))


def test_what_has_moved_is_told_by_name_with_old_and_new_versions(tool: dict[str, Any]) -> None:
    assert list(tool["moved"](BEFORE, AFTER)) == [
        "aiohttp 3.14.3: other files of the same version",
        "numpy 2.3.0 -> 2.3.0, 2.4.0",
        "pandas 2.3.3 -> 3.0.1",
        "six 1.17.0 -> (none)",
        "zstd (none) -> 1.0",
    ]
    assert list(tool["moved"](BEFORE, BEFORE)) == []


def test_jars_move_by_their_coordinates(tool: dict[str, Any]) -> None:
    before = f"# made\norg.a:b:1.0 {'0' * 64}\norg.a:c_2.13:2.0 {'1' * 64}\n"
    after = f"# made\norg.a:b:1.1 {'2' * 64}\norg.a:c_2.13:2.0 {'3' * 64}\n"
    assert list(tool["moved"](before, after)) == [
        "org.a:b 1.0 -> 1.1",
        "org.a:c_2.13 2.0: other files of the same version",
    ]


def test_every_lock_of_the_repository_is_read_and_renewed(tool: dict[str, Any]) -> None:
    locks = tool["read_locks"]()
    names = {path.relative_to(ROOT).as_posix() for path in locks}
    assert {"requirements.lock", "requirements-java.lock", "runtime/embedded/kafka/jars.lock"} <= names
    for path, text in locks.items():
        lines = re.findall(r"^[a-z].*$", text, re.MULTILINE)
        versions = tool["read_lock"](text).values()
        assert sum(map(len, versions)) == len(lines), path
        assert all(digests for its in versions for digests in its.values()), path


def test_every_extra_is_locked(tool: dict[str, Any]) -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert {*tool["_EXTRAS"], "java"} == set(setup["options.extras_require"])


def test_an_upgrade_that_fails_half_way_leaves_all_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tool: dict[str, Any], tmp_path: Path
) -> None:
    lock, bill = tmp_path / "requirements.lock", tmp_path / "sbom.cdx.json"
    lock.write_text(BEFORE)
    bill.write_text("{}")

    def renew(packages: list[str]) -> None:
        for path in (lock, bill, tmp_path / "requirements-new.lock"):
            path.write_text("half")
        raise subprocess.CalledProcessError(1, ["uv"])

    for name, value in {"ROOT": tmp_path, "_BILL": bill, "renew": renew}.items():
        monkeypatch.setitem(tool["main"].__globals__, name, value)
    monkeypatch.setattr(sys, "argv", ["upgrade.py"])
    with pytest.raises(SystemExit, match="nothing is renewed, all locks are as they were: Command"):
        tool["main"]()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        lock.name: BEFORE,
        bill.name: "{}",
    }
