"""Handlers that are surely missing, found without running them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runtime.config.handler_lookup import handler_fault


def fault(folder: Path, source: str, module: str = "main") -> str:
    file = folder.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    return handler_fault(folder, module, "handler")


@pytest.mark.parametrize(
    "source",
    [
        "def handler(context, event): ...",
        "async def handler(context, event): ...",
        "from elsewhere import handler",
        "from elsewhere import other as handler",
        "from elsewhere import *",
        "import handler",
        "handler = lambda context, event: None",
        "handler: object = print",
        "class handler: ...",
        "if True:\n    def handler(context, event): ...",
        "for handler in (print,): ...",
        "globals()['hand' + 'ler'] = print",
        "def __getattr__(name): ...",
        f"x = {'-' * 100_000}1",
        "raise SystemExit('whatever runs is not looked at')\nhandler = 1",
    ],
)
def test_whatever_may_define_the_handler_is_left_to_the_import(tmp_path: Path, source: str) -> None:
    assert fault(tmp_path, source) == ""
    assert fault(tmp_path, source, "a.b.main") == ""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "'main' has no function 'handler'; it has none"),
        ("def one(): ...\nasync def two(): ...", "'main' has no function 'handler'; it has one, two"),
        ("x = 1\ndef handler(:", "main.py:2: is no Python: invalid syntax"),
        ("x = '\0'", "main.py:1: is no Python: source code string cannot contain null bytes"),
    ],
)
def test_what_surely_is_none_is_said(tmp_path: Path, source: str, says: str) -> None:
    assert fault(tmp_path, source).removeprefix(f"{tmp_path}/") == says


def test_a_package_may_hold_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("def handler(): ...")
    assert handler_fault(tmp_path, "package", "handler") == ""


def test_a_module_must_be_in_the_folder_or_installed(tmp_path: Path) -> None:
    assert handler_fault(tmp_path, "no_such_module", "handler") == f"no module 'no_such_module' in {tmp_path}"
    assert handler_fault(tmp_path, "headrace.functions.spark_pipeline.handler", "handler") == ""
    assert handler_fault(tmp_path, "__main__", "handler") == ""


def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    (package := tmp_path / "package").mkdir()
    (package / "main.py").write_text("def handler(context, event): ...")
    package.chmod(0)
    script = (
        "import os, pathlib, sys; from headrace.runtime.config.handler_lookup import handler_fault\n"
        "if os.geteuid() == 0: os.setegid(65534); os.seteuid(65534)\n"  # root may read everything
        "print(handler_fault(pathlib.Path(sys.argv[1]), 'package.main', 'handler'))"
    )
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{package}/main.py cannot be read: Permission denied\n"
