"""What `make storm` makes of its storms' output: one row each, and all that ran counts."""

import subprocess
import sys
from pathlib import Path

import everything
import pytest
from everything import STORMS, Storm, report, row, run, write_report
from scenario import Report

TEXT = """seed 7
k2: 2 repetitions, 33 kills
k2: produced: 2 times, min 400.000, median 450.000, max 500.000, bound 1 to 1e+09, violations 0
k2: L1 lost: 2 times, min 0.000, median 0.000, max 1.000, bound 0 to 0, violations 1
  VIOLATION repetition 1: 1.000
took 90 s
exit code 1
"""


def test_a_row_says_how_often_how_many_faults_and_the_worst_of_each_promise() -> None:
    cells = [cell.strip() for cell in row("k2", TEXT).split("|")[1:-1]]
    assert cells[:5] == ["k2", "2", "33 kills", "900", "1"]
    assert cells[-3:] == ["1.5", "7", "**broken**"]


def test_a_report_adds_up_the_faults_of_its_repetitions(capsys: pytest.CaptureFixture[str]) -> None:
    found = Report()
    for number, kills in enumerate([30, 40, 35]):
        found.add_faults("kills", kills, number)
        found.add_faults("joins and leaves", 2, number)
    assert found.show("r1")
    assert capsys.readouterr().out.startswith("r1: 3 repetitions, 105 kills, 6 joins and leaves\n")
    found.add_faults("kills", 0, 3)
    assert not found.show("r1")


def test_every_figure_is_listed_with_its_bound() -> None:
    assert "| k2 | L1 lost | 2 | 0.000 | 0.000 | 1.000 | 0 to 0 |" in report({"k2": TEXT}, "abc")


def test_storms_have_names_of_their_own() -> None:
    names = [storm.name for storm in STORMS]
    assert len(names) == len(set(names))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results go; the report goes there too."""
    monkeypatch.setattr(everything, "ROOT", tmp_path)
    monkeypatch.setattr(everything, "REPORT", tmp_path / "docs" / "report.md")
    monkeypatch.setattr(everything, "HERE", tmp_path)
    return tmp_path


SCRIPT = "import sys; print('seed 7'); print('k2: 2 repetitions, 33 kills'); open('ran', 'a').write('x')"


def test_a_storm_runs_once_and_is_in_the_report_of_whoever_writes_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "faults.py").write_text(SCRIPT)
    for _ in range(2):
        run(Storm("faults", "k2", 2), folder / "k2.txt", 1.0)
    assert (folder / "ran").read_text() == "x"
    (folder / "k4.txt").write_text(TEXT.replace("k2:", "k4:"))  # by another one
    assert write_report(folder, "abc", ["k2"]) == 0
    written = (folder / "docs" / "report.md").read_text()
    assert "| k2 | 2 | 33 kills |" in written
    assert "| k4 | 2 | 33 kills |" in written
    assert write_report(folder, "abc", ["k2", "k4"]) == 1
    assert not list(folder.glob("*.partial"))


def test_what_runs_elsewhere_is_left_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "faults.py").write_text(SCRIPT)
    code = "import fcntl, sys; f = open('k2.partial', 'a'); fcntl.flock(f, 2); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        run(Storm("faults", "k2", 2), folder / "k2.txt", 1.0)
        assert not (folder / "ran").exists()
        other.communicate(b"\n")
    run(Storm("faults", "k2", 2), folder / "k2.txt", 1.0)
    assert (folder / "ran").exists()
