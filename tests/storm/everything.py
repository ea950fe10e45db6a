"""`make storm`: all storms, and a report. What has its result for this commit is skipped.

Two of these with different names may run side by side; each writes the report of all that has its result.

usage: everything.py [NAME...] [--share FRACTION] [--report-only]

NAME is one of STORMS; a share of 0.1 is a short look.
"""

import argparse
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from refused import CROSSED
from refused import MODES as REFUSED
from root import ROOT
from sabotage import FAILPOINTS
from ways import WAYS

HERE = ROOT / "tests" / "storm"
RESULTS = ROOT / ".storm"
REPORT = ROOT / "docs" / "storm-report.md"


@dataclass(frozen=True, slots=True)
class Storm:
    """One line of the report: a script, one of its scenarios, how often, and how long each load lasts.

    With 0 seconds it isn't asked for a load.
    """

    script: str
    scenario: str
    count: int
    seconds: int = 20
    is_known_by_script: bool = False
    """Its scenario alone would not say what it is."""

    @property
    def name(self) -> str:
        if self.is_known_by_script and self.scenario:
            return f"{self.script}-{self.scenario}"
        return self.scenario or self.script


def of(script: str, **counts: int) -> list[Storm]:
    """Scenarios that have no load."""
    return [Storm(script, name, count, is_known_by_script=True) for name, count in counts.items()]


STORMS = [
    Storm("faults", "k1-pool", 4, 75),
    Storm("faults", "k1-static", 4, 75),
    Storm("faults", "k2", 3, 50),
    Storm("faults", "k3", 5, 20),
    Storm("faults", "k4", 3, 75),
    Storm("faults", "r1", 6, 55),
    Storm("faults", "t1", 3),
    Storm("faults", "k1-consumer", 4, 75),
    Storm("faults", "k3-consumer", 5, 20),
    Storm("faults", "r1-consumer", 10, 60),
    Storm("static_members", "instance-ids", 6, 100),
    *(Storm("faults", f"k1-{way}", 2, 40) for way in WAYS),
    *(Storm("faults", f"k2-{way}", 2, 30) for way in WAYS),
    *(Storm("faults", f"r1-{way}", 2, 40) for way in WAYS),
    Storm("network", "cut-1s", 3, 20),
    Storm("network", "cut-10s", 3, 30),
    Storm("network", "cut-60s", 3, 10),
    Storm("network", "one-way", 3, 20),
    *(Storm("network", f"{name}-consumer", 2, 20) for name in ("cut-1s", "cut-10s", "one-way")),
    Storm("network", "cut-60s-consumer", 2, 10),
    *(Storm("network", f"{name}-consumer", 2, 20) for name in ("delay", "b1-restart", "b1-kill", "failover")),
    Storm("network", "delay", 3, 20),
    Storm("network", "b1-restart", 3, 20),
    Storm("network", "b1-kill", 3, 20),
    Storm("produces", "produce-plain", 4, 45),
    Storm("produces", "produce-once", 4, 45),
    *(Storm("refused", f"refused-{mode}", 10, 50) for mode in REFUSED),
    *(Storm("refused", f"refused-{mode}", 3, 30) for mode in CROSSED),
    Storm("reload_acks", "reload-held-acks", 10, 50),
    Storm("soak", "s1", 1, 600),
    Storm("soak", "d1", 5),
    Storm("model", "", 50, 0),
    Storm("simulation", "", 5000, 0),
    *(Storm("failpoints", name, 5) for name in FAILPOINTS),
    Storm("records", "p2", 5),
    Storm("records", "p3", 2),
    Storm("bombs", "p2-bombs", 3),
    Storm("logs", "p4", 5, 10),
    Storm("logs", "p5", 5),
    Storm("logs", "r3", 5),
    *of("kills", worker=10, processor=10),
    *of("stops", sigterm=10, churn=6),
    Storm("rebalances", "others", 1, 300, is_known_by_script=True),
    *of("rebalances", wait=5, finish=3, long=2, join=5, drain=5),
    *of("acks", restart=6, hole=5),
    *of("poison", raises=5, halt=5, letters=5, unwritable=3, skip=5, dies=9, rebalances=3),
    *(Storm("poison_ways", f"p1-{way}", 2) for way in WAYS),
    *of("batches", replica=8, worker=8),
    *of("spark_kills", replica=3, worker=3, server=3),
    *of("long_tasks", steady=1, kill=5, join=5, unwritable=3),
    Storm("long_tasks", "join-consumer", 5, is_known_by_script=True),
    *of("model_metrics", mixed=2, kill=2, outage=1),
    *of("v3io_group", members=2),
    Storm("v3io_group", "kills", 1, 300, is_known_by_script=True),
    Storm("v3io_group", "away", 2, 90, is_known_by_script=True),
    *of("run_tracking", load=2, kill=2, delete=2, backlog=1, outage=2),
]
_COLUMNS = (
    "storm",
    "repetitions",
    "faults",
    "produced",
    "lost",
    "repeated, at most",
    "of those allowed",
    "overlap, s",
    "stall, s",
    "minutes",
    "seed",
    "bounds",
)
_FIGURE = re.compile(r"^(\S+): (.+): (\d+) times, min (\S+), median (\S+), max (\S+), bound (\S+) to (\S+), ")


def main() -> int:
    """0 where every bound of the chosen storms held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *(storm.name for storm in STORMS)])
    parser.add_argument("--share", type=float, default=1.0, help="of the repetitions")
    parser.add_argument("--report-only", action="store_true", help="write it from the results that there are")
    options = parser.parse_args()
    tree = describe_tree()
    folder = RESULTS / tree
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [storm.name for storm in STORMS if not options.names or storm.name in options.names]
    for storm in STORMS:
        if storm.name in chosen and not options.report_only:
            run(storm, folder / f"{storm.name}.txt", options.share)
    return write_report(folder, tree, chosen)


def write_report(folder: Path, tree: str, chosen: list[str]) -> int:
    """All that has its result. Whole at any time: another one may write it too."""
    held = {storm.name: result(folder / f"{storm.name}.txt") for storm in STORMS}
    REPORT.parent.mkdir(exist_ok=True)
    new = folder / f"report-{os.getpid()}"
    new.write_text(report({name: text for name, text in held.items() if text}, tree))
    new.replace(REPORT)
    print(f"{REPORT.relative_to(ROOT)} is written")
    broken = [name for name in chosen if held[name] and not is_held(held[name])]
    if broken:
        print(f"bounds were broken, or a storm ended early: {', '.join(broken)}")
    return 1 if broken else 0


def describe_tree() -> str:
    """Its commit, and whether it was changed, but for the report: then results are not the commit's."""
    others = ["--", ".", f":!{REPORT.relative_to(ROOT)}"]
    is_changed = git("status", "--porcelain", "--untracked-files=no", *others)
    return git("describe", "--always") + ("-dirty" if is_changed else "")


def git(*arguments: str) -> str:
    """What it says."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def run(storm: Storm, path: Path, share: float) -> None:
    """Its output goes to the terminal and to `path`, which is there once the storm has ended."""
    partial = path.with_suffix(".partial")
    with partial.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"== {storm.name}: runs elsewhere", flush=True)
            return
        if path.exists():
            print(f"== {storm.name}: has its result", flush=True)
            partial.unlink(missing_ok=True)  # its other run may have ended just now
            return
        file.truncate(0)
        _run(storm, file, share)
        partial.rename(path)


def _run(storm: Storm, file: TextIO, share: float) -> None:
    print(f"== {storm.name}", flush=True)
    count = max(1, round(storm.count * share))
    arguments = [*([storm.scenario] if storm.scenario else []), "--count", str(count)]
    if storm.seconds:
        arguments += ["--seconds", str(storm.seconds)]
    command = [sys.executable, str(HERE / f"{storm.script}.py"), *arguments]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    file.write(f"took {time.monotonic() - began:.0f} s\nexit code {process.returncode}\n")
    file.flush()


def result(path: Path) -> str:
    """What a storm has printed; empty where it hasn't run."""
    return path.read_text() if path.exists() else ""


def is_held(text: str) -> bool:
    """Every bound, to the end."""
    return text.endswith("exit code 0\n")


def report(results: Mapping[str, str], tree: str) -> str:
    """Markdown: one table of the promises, then every figure."""
    rows = [
        f"# Storms\n\nWritten by `make storm` at {tree}. A failing run is replayed by its seed.\n",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{len(_COLUMNS) * '---|'}",
    ]
    rows += [row(name, text) for name, text in results.items()]
    rows.append("\n## Every figure\n\n| scenario | figure | times | min | median | max | bound |")
    rows.append("|---|---|---|---|---|---|---|")
    for text in results.values():
        rows += [
            "| {} | {} | {} | {} | {} | {} | {} to {} |".format(*found.groups())
            for line in text.splitlines()
            if (found := _FIGURE.match(line))
        ]
    return "\n".join(rows) + "\n"


def row(name: str, text: str) -> str:
    """Its figures are those of a Load; a storm of another kind has its own, below."""
    figures = {found[2]: found for line in text.splitlines() if (found := _FIGURE.match(line))}

    def worst(figure: str) -> str:
        return f"{float(figures[figure][6]):g}" if figure in figures else ""

    def said(pattern: str) -> str:
        match = re.search(pattern, text, re.MULTILINE)
        return match[1] if match else ""

    seconds = int(said(r"^took (\d+) s") or 0)
    produced = figures.get("produced")
    cells = [
        name,
        said(r"^\S+: (\d+) repetitions"),
        said(r"^\S+: \d+ repetitions, (.+)$"),
        f"{int(produced[3]) * float(produced[5]):.0f}" if produced else "",
        *map(worst, ("L1 lost", "L2 repeated", "L2 repeated, of those allowed", "L4 longest overlap, s")),
        worst("L9 longest stall, s"),
        f"{seconds / 60:.1f}",
        said(r"^seed (\d+)"),
        "held" if is_held(text) else "**broken**",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
