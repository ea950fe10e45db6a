"""What a newcomer does first: the README word by word, the example, an install into an empty environment."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command import run
from replica import replica, wait_until
from root import ROOT


def test_the_readmes_first_function_greets(tmp_path: Path) -> None:
    blocks = re.findall(r"```(yaml|python)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "function.yaml").write_text(blocks[0][1])
    (tmp_path / "greeter.py").write_text(blocks[1][1])
    with replica(tmp_path, "--embedded-kafka") as running:
        running.wait_ready()
        address = running.log.split("embedded Kafka at ")[1].split()[0]
        sent = subprocess.run(
            [sys.executable, "-m", "headrace", "kafka", "produce", "--brokers", address, "--topic", "names"],
            input=b"Ada\n",
            check=True,
            capture_output=True,
        )
        assert sent.returncode == 0
        wait_until(lambda: "handler: Hello, Ada!" in running.log, about=running)
        assert running.stop() == 0


def test_help_names_what_there_is() -> None:
    text = run("--help").stdout + run("run", "--help").stdout
    for word in ("run", "kafka", "--replicas", "--embedded-kafka", "--admin-port"):
        assert word in text
    assert "--parent-fd" not in text


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the tree as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"headrace"}
    assert {
        "headrace/py.typed",
        "headrace/runtime/partitions/offsets/ledger.py",
        "headrace/triggers/kafka/trigger.py",
    } <= set(names)
    assert "headrace/specs/kafka-minimal.yaml" in names


def test_an_install_into_an_empty_environment_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    venv = tmp_path / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", venv / "bin/python", wheel], check=True, env=clean
    )
    (tmp_path / "runtime").mkdir()  # a folder of the user's with a name like one of ours
    (tmp_path / "runtime/function.yaml").write_text("spec:\n  handler: a:b\n")
    headrace = venv / "bin/headrace"
    shown = subprocess.run([headrace, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "headrace, version" in shown.stdout
    refused = subprocess.run(
        [headrace, "run", "runtime"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    needs = subprocess.run(
        [headrace, "kafka", "up", "--port", "0"],
        cwd=tmp_path,
        env={**clean, "XDG_CACHE_HOME": str(tmp_path)},  # Kafka's jars are not there yet
        capture_output=True,
        text=True,
        check=False,
    )
    assert needs.returncode == 2
    assert "headrace[embedded]" in needs.stderr
