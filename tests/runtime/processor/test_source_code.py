"""Code in spec.build.functionSourceCode."""

import base64
import os
import stat
from pathlib import Path

import pytest
from broker import Broker
from command import run
from kafka_records import produce
from replica import lines, replica, set_spec, wait_until, write_function

UNUSED = "def handler(context, event): raise RuntimeError"
CODE = """
import pathlib
def handler(context, event):
    with pathlib.Path({log!r}).open("a") as log:
        print(pathlib.Path(__file__).parent, file=log)
"""


def _coded(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()  # with line breaks, as `base64` prints it


@pytest.fixture
def folder(broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    folder = write_function(tmp_path / "f", UNUSED, broker.bootstrap, [topic])
    code = CODE.format(log=str(folder / "log"))
    produce(broker, topic, 8)
    return set_spec(folder, build={"functionSourceCode": _coded(code)}, handler="pack.shop-one:handler")


def test_it_runs_from_a_private_folder_that_goes_away(folder: Path) -> None:
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 8, about=running)
        (private,) = {Path(line).parent for line in lines(folder)}
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert private.parent == folder.parent / "tmp"
        running.stop()
        assert not private.exists()


def test_a_later_run_deletes_what_a_killed_one_left(folder: Path) -> None:
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 8, about=running)
        running.kill()
    left = Path(lines(folder)[0]).parent
    assert left.exists()
    os.utime(left, (0, 0))  # a minute has gone by
    with replica(folder) as running:
        wait_until(lambda: not left.exists(), about=running)


@pytest.mark.full_but("ZGVmIG90aGVyKCk6IC4uLg==\\n-'main' has no function 'handler'; it has other")
@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("def handler(): ...", "the value (not shown) is no text in base64; expected what `base64 main.py`"),
        (_coded("def other(): ..."), "'main' has no function 'handler'; it has other"),
        (_coded("def handler(:"), "main.py:1: is no Python: "),
        (base64.b64encode(b"\xff").decode(), "is no text in base64"),
    ],
)
def test_code_that_cannot_run_is_one_line(tmp_path: Path, written: str, says: str) -> None:
    folder = set_spec(
        write_function(tmp_path / "f", UNUSED, "b:1", ["a"]),
        build={"functionSourceCode": written},
        handler="main:handler",
    )
    result = run("validate", str(folder))
    assert says in result.stdout
    assert result.stdout.count("\n") == 1
